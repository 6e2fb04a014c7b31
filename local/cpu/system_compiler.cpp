#include "quarry/local/cpu/system_compiler.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "quarry/local/base/error.h"
#include "quarry/local/base/log.h"
#include "quarry/local/base/options.h"
#include "quarry/local/base/trace.h"
#include "quarry/local/cpu/loops.h"
#include "quarry/local/program/disk_cache.h"

namespace quarry::local::cpu {
namespace {

struct Compiler {
  std::vector<std::string> command;  // the program, by its path, and what $CXX adds
  std::string identity;              // changes when the program does
};

std::string path_of(const std::string& program) {
  if (program.find('/') != std::string::npos) return ::access(program.c_str(), X_OK) == 0 ? program : "";
  std::istringstream folders(local::environment("PATH").value_or("/usr/bin:/bin"));
  for (std::string folder; std::getline(folders, folder, ':');) {
    std::string candidate = (folder.empty() ? "." : folder) + "/" + program;
    if (::access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  return "";
}

// $CXX may change between calls; looking is cheap beside compiling.
Compiler find_compiler() {
  const std::string wanted = local::environment("CXX", "c++");
  Compiler compiler;
  std::istringstream words(wanted);
  for (std::string word; words >> word;) compiler.command.push_back(word);
  const std::string path = compiler.command.empty() ? "" : path_of(compiler.command[0]);
  if (path.empty())
    throw NotSupported(
        fmt::format("kernels from source need a C++ compiler on the CPU, and there is no '{}': install "
                    "one, or name it by the environment variable CXX",
                    wanted));
  compiler.command[0] = path;
  struct stat status {};
  std::error_code error;
  const std::string real = std::filesystem::canonical(path, error).string();
  if (::stat(path.c_str(), &status) == 0)
    compiler.identity = fmt::format("{} {} {} {}", wanted, real, static_cast<int64_t>(status.st_size),
                                    static_cast<int64_t>(status.st_mtime));
  return compiler;
}

std::vector<std::string> flags_of(const std::vector<std::string>& options) {
  std::vector<std::string> flags = {"-std=c++20",
                                    "-O3",
                                    "-fPIC",
                                    "-shared",
                                    "-w",
                                    "-ffp-contract=off",
                                    "-fno-math-errno",
                                    "-fno-trapping-math",
                                    "-fno-strict-aliasing",
                                    "-fvisibility=hidden"};
#ifdef __x86_64__
  switch (cpu_level()) {
#define QUARRY_LEVEL_ROW(name)                  \
  case Level::name:                             \
    flags.emplace_back("-march=x86-64-" #name); \
    break;
#include "quarry/local/cpu/levels.def"
  }
#endif
  for (const std::string& option : options) {
    if (option.starts_with("-D") || option.starts_with("-U") || option.starts_with("-I"))
      flags.push_back(option);
    else if (option == "--use_fast_math" || option == "-use_fast_math")
      flags.emplace_back("-ffast-math");
    else if (option == "--fmad=true" || option == "-fmad=true")
      flags.emplace_back("-ffp-contract=fast");
  }
  return flags;
}

class TemporaryFolder {
 public:
  TemporaryFolder() {
    path_ = local::environment("TMPDIR", "/tmp") + "/quarry-XXXXXX";
    if (::mkdtemp(path_.data()) == nullptr)
      throw IoError(fmt::format("no folder to compile in: {}: {}", path_, std::strerror(errno)));
  }
  ~TemporaryFolder() {
    std::error_code error;
    std::filesystem::remove_all(path_, error);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  std::string file(const char* name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream content;
  content << file.rdbuf();
  return content.str();
}

// Messages in English and ASCII.
std::vector<std::string> compiler_environment() {
  std::vector<std::string> list{"LC_ALL=C"};
  for (const std::string& entry : environment_entries())
    if (!entry.starts_with("LC_ALL=") && !entry.starts_with("LANGUAGE=")) list.push_back(entry);
  return list;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> list;
  for (std::string& text : texts) list.push_back(text.data());
  list.push_back(nullptr);
  return list;
}

// Exit status of a command whose output goes to `log`.
int run_command(std::vector<std::string> command, const std::string& log) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  std::vector<std::string> variables = compiler_environment();
  pid_t child = 0;
  const int failed = ::posix_spawn(&child, command[0].c_str(), &actions, nullptr, pointers(command).data(),
                                   pointers(variables).data());
  posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) throw NotSupported(fmt::format("{} cannot be run: {}", command[0], std::strerror(failed)));
  int status = 0;
  while (::waitpid(child, &status, 0) < 0)
    if (errno != EINTR) throw IoError(fmt::format("{}: {}", command[0], std::strerror(errno)));
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

std::string compile(const Compiler& compiler, const std::vector<std::string>& flags, const std::string& source) {
  const TraceScope scope("compile kernel", "compute");
  const TemporaryFolder folder;
  {
    std::ofstream file(folder.file("kernel.cpp"), std::ios::binary);
    file << source;
    file.close();
    if (!file) throw IoError(fmt::format("cannot write {}", folder.file("kernel.cpp")));
  }
  std::vector<std::string> command = compiler.command;
  command.insert(command.end(), flags.begin(), flags.end());
  for (const std::string& word : {folder.file("kernel.cpp"), std::string("-o"), folder.file("kernel.so")})
    command.push_back(word);
  const int status = run_command(std::move(command), folder.file("log"));
  if (status != 0) throw Refused(read_file(folder.file("log")));
  return read_file(folder.file("kernel.so"));
}

// Null, with dlerror()'s reason, for what is no shared object.
void* load(const std::string& code, std::string& reason) {
  const int file = ::memfd_create("quarry-kernel", MFD_CLOEXEC);
  if (file < 0) throw IoError(fmt::format("memfd_create: {}", std::strerror(errno)));
  size_t written = 0;
  while (written < code.size()) {
    const ssize_t count = ::write(file, code.data() + written, code.size() - written);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    written += static_cast<size_t>(count);
  }
  // dlopen() takes a name that it knows for the object that it knows: each needs one of its own.
  static std::atomic<int> serial = 0;
  const TemporaryFolder folder;
  const std::string path = folder.file(fmt::format("kernel-{}", serial++).c_str());
  void* object = nullptr;
  if (::symlink(fmt::format("/proc/self/fd/{}", file).c_str(), path.c_str()) == 0)
    object = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (object == nullptr) {
    const char* error = ::dlerror();
    reason = error == nullptr ? std::strerror(errno) : error;
  }
  ::close(file);
  return object;
}

}  // namespace

void* compile_and_load(const std::string& source, const std::vector<std::string>& options) {
  static const DiskCache disk(DiskCache::default_folder());
  const Compiler compiler = find_compiler();
  const std::vector<std::string> flags = flags_of(options);
  std::string text = compiler.identity;
  for (const std::string& flag : flags) text += ' ' + flag;
  const std::string name = "cpu-" + content_name(text + '\n' + source);
  std::string code, reason;
  if (disk.load(name, code)) {
    if (void* const object = load(code, reason)) return object;
    log(LogLevel::warn, fmt::format("a cached kernel that cannot be loaded is compiled anew: {}", reason));
  }
  code = compile(compiler, flags, source);
  void* const object = load(code, reason);
  if (object == nullptr) throw IoError(fmt::format("a compiled kernel cannot be loaded: {}", reason));
  disk.store(name, code);
  return object;
}

}  // namespace quarry::local::cpu
