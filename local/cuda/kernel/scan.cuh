// Scans and folds along one axis (local/cuda/scanning.cpp). Embedded inside a namespace that has defined In, T, W (what
// is computed in), K (elements per thread of a tile) and W combine(W, W).

enum Slot {
  s_in,
  s_out,
  s_length,
  s_in_step,
  s_out_step,
  s_lanes,  // lines that are neighbours along one axis
  s_in_lane,
  s_out_lane,
  s_lines,  // of all other axes
  s_segments,
  s_per_segment,
  s_partial,  // W, one per line and segment
  s_partial_line,
  s_partial_segment,
  s_mode,
  s_ranges,
  s_begins,
  s_ends,
  s_axes,  // how many more axes; then extent, step of in, step of out of each, outermost first
  s_first_axis
};
struct Params {
  int64_t s[112];
};
// What becomes of a segment: its scan, its fold as a partial result, or its scan after all segments before it.
enum Mode { m_scan, m_fold, m_continue };

template <class S>
QUARRY_FN W widen(S x) {
  if constexpr (fn::same_type<S, W>)
    return x;
  else if constexpr (fn::same_type<T, W>)
    return fn::convert<W>::from(x);
  else
    return static_cast<W>(fn::convert<T>::from(x));
}
template <class D>
QUARRY_FN D narrow(W x) {
  return static_cast<D>(x);
}

struct Line {
  const char* in;
  char* out;
};
QUARRY_FN Line line_at(const Params& p, int64_t line) {
  int64_t rest = line / p.s[s_lanes];
  const int64_t lane = line - rest * p.s[s_lanes];
  Line at{reinterpret_cast<const char*>(p.s[s_in]) + lane * p.s[s_in_lane],
          reinterpret_cast<char*>(p.s[s_out]) + lane * p.s[s_out_lane]};
  for (int64_t d = p.s[s_axes]; d-- > 0;) {
    const int64_t* axis = p.s + s_first_axis + 3 * d;
    const int64_t next = rest / axis[0], position = rest - next * axis[0];
    at.in += position * axis[1];
    at.out += position * axis[2];
    rest = next;
  }
  return at;
}
QUARRY_FN W* partial_at(const Params& p, int64_t line, int64_t segment) {
  return reinterpret_cast<W*>(p.s[s_partial]) + line * p.s[s_partial_line] + segment * p.s[s_partial_segment];
}

// A thread per line and segment, in order. Neighbouring threads take neighbouring lines.
template <class S, class D>
QUARRY_FN void run_lines(const Params& p) {
  constexpr int U = 8;
  const int64_t thread = static_cast<int64_t>(blockIdx.x) * kBlock + threadIdx.x;
  const int64_t segment = thread / p.s[s_lines], line = thread - segment * p.s[s_lines];
  if (segment >= p.s[s_segments]) return;
  const int64_t begin = segment * p.s[s_per_segment];
  int64_t end = begin + p.s[s_per_segment];
  if (end > p.s[s_length]) end = p.s[s_length];
  const int64_t mode = p.s[s_mode], in_step = p.s[s_in_step], out_step = p.s[s_out_step];
  const Line at = line_at(p, line);
  const char* x = at.in + begin * in_step;
  char* y = at.out + begin * out_step;
  W acc;
  bool started = mode == m_continue && segment > 0;
  if (started) acc = *partial_at(p, line, segment - 1);
  int64_t i = begin;
  for (; i + U <= end; i += U) {
    S values[U];
#pragma unroll
    for (int u = 0; u < U; ++u) values[u] = load_one<S>(x + u * in_step);
#pragma unroll
    for (int u = 0; u < U; ++u) {
      const W value = widen(values[u]);
      acc = started ? combine(acc, value) : value;
      started = true;
      if (mode != m_fold) store_one<D>(y + u * out_step, narrow<D>(acc));
    }
    x += U * in_step;
    y += U * out_step;
  }
  for (; i < end; ++i) {
    const W value = widen(load_one<S>(x));
    acc = started ? combine(acc, value) : value;
    started = true;
    if (mode != m_fold) store_one<D>(y, narrow<D>(acc));
    x += in_step;
    y += out_step;
  }
  if (mode == m_fold) *partial_at(p, line, segment) = acc;
}

// A block per line and segment: tiles of kBlock * K elements through shared memory, so that global accesses are dense
// while every thread combines K neighbours. The order is that of a fixed tree inside a tile, tiles one after the other.
QUARRY_FN W shuffle_up(W x, int distance) {
  uint32_t words[(sizeof(W) + 3) / 4] = {};
  memcpy(&words, &x, sizeof(W));
#pragma unroll
  for (int i = 0; i < static_cast<int>((sizeof(W) + 3) / 4); ++i)
    words[i] = __shfl_up_sync(0xffffffffu, words[i], distance);
  memcpy(&x, &words, sizeof(W));
  return x;
}

template <class S, class D>
QUARRY_FN void run_rows(const Params& p) {
  constexpr int kTileElements = kBlock * K, kWarps = kBlock / 32;
  __shared__ W tile[kTileElements + kTileElements / 32];
  __shared__ W warps[kWarps];
  const auto place = [](int i) { return i + i / 32; };
  const int t = threadIdx.x, lane = t % 32, warp = t / 32;
  const int64_t job = blockIdx.x, line = job / p.s[s_segments], segment = job - line * p.s[s_segments];
  const int64_t begin = segment * p.s[s_per_segment];
  int64_t end = begin + p.s[s_per_segment];
  if (end > p.s[s_length]) end = p.s[s_length];
  const int64_t mode = p.s[s_mode], in_step = p.s[s_in_step], out_step = p.s[s_out_step];
  const Line at = line_at(p, line);
  W carry;
  bool carried = mode == m_continue && segment > 0;
  if (carried) carry = *partial_at(p, line, segment - 1);
  for (int64_t base = begin; base < end; base += kTileElements) {
    const int count = end - base < kTileElements ? static_cast<int>(end - base) : kTileElements;
    S values[K];
#pragma unroll
    for (int k = 0; k < K; ++k)
      if (t + k * kBlock < count) values[k] = load_one<S>(at.in + (base + t + k * kBlock) * in_step);
#pragma unroll
    for (int k = 0; k < K; ++k)
      if (t + k * kBlock < count) tile[place(t + k * kBlock)] = widen(values[k]);
    __syncthreads();
    // The prefixes of this thread's K elements; `mine` of them exist.
    const int left = count - t * K, mine = left < 0 ? 0 : left < K ? left : K;
    W own[K];
#pragma unroll
    for (int k = 0; k < K; ++k)
      if (k < mine) own[k] = k == 0 ? tile[place(t * K)] : combine(own[k - 1], tile[place(t * K + k)]);
    W total = own[0];
#pragma unroll
    for (int k = 1; k < K; ++k)
      if (k < mine) total = own[k];
    // Across the warp: threads with elements come first, so that a lane's predecessors exist if it does.
    const bool present = mine > 0;
#pragma unroll
    for (int distance = 1; distance < 32; distance *= 2) {
      const W other = shuffle_up(total, distance);
      if (present && lane >= distance) total = combine(other, total);
    }
    W before = shuffle_up(total, 1);
    bool has_before = present && lane > 0;
    const int warps_present = (count + 32 * K - 1) / (32 * K);
    const int last_thread = (count - 1) / K;
    if (present && (lane == 31 || t == last_thread)) warps[warp] = total;
    __syncthreads();
    // What precedes this warp: the carry, then the warps before it in order. All threads make the next carry alike.
    W ahead = carry;
    bool has_ahead = carried;
    for (int w = 0; w < warps_present; ++w) {
      if (w == warp && present) {
        if (has_ahead) before = has_before ? combine(ahead, before) : ahead;
        has_before = has_before || has_ahead;
      }
      ahead = has_ahead ? combine(ahead, warps[w]) : warps[w];
      has_ahead = true;
    }
    carry = ahead;
    carried = true;
    if (mode != m_fold) {
#pragma unroll
      for (int k = 0; k < K; ++k)
        if (k < mine) tile[place(t * K + k)] = has_before ? combine(before, own[k]) : own[k];
      __syncthreads();
#pragma unroll
      for (int k = 0; k < K; ++k)
        if (t + k * kBlock < count)
          store_one<D>(at.out + (base + t + k * kBlock) * out_step, narrow<D>(tile[place(t + k * kBlock)]));
    }
    __syncthreads();
  }
  if (mode == m_fold && t == 0) *partial_at(p, line, segment) = carry;
}

// A thread, or a warp for contiguous ranges of operations that may be grouped, per line and range.
template <int Threads>
QUARRY_FN void run_fold(const Params& p) {
  const int64_t thread = static_cast<int64_t>(blockIdx.x) * kBlock + threadIdx.x;
  const int64_t job = thread / Threads, lane = thread - job * Threads;
  if (job >= p.s[s_lines] * p.s[s_ranges]) return;  // whole warps
  const int64_t range = job / p.s[s_lines], line = job - range * p.s[s_lines];
  const int64_t begin = p.s[s_begins] ? reinterpret_cast<const int64_t*>(p.s[s_begins])[range] : 0;
  const int64_t end = p.s[s_begins] ? reinterpret_cast<const int64_t*>(p.s[s_ends])[range] : p.s[s_length];
  const Line at = line_at(p, line);
  const int64_t step = p.s[s_in_step];
  W acc;
  bool started = false;
  int64_t i = begin + lane;
  constexpr int U = 8;
  for (; i + (U - 1) * Threads < end; i += U * Threads) {
    T values[U];
#pragma unroll
    for (int u = 0; u < U; ++u) values[u] = load_one<T>(at.in + (i + u * Threads) * step);
#pragma unroll
    for (int u = 0; u < U; ++u) {
      acc = started ? combine(acc, widen(values[u])) : widen(values[u]);
      started = true;
    }
  }
  for (; i < end; i += Threads) {
    const W value = widen(load_one<T>(at.in + i * step));
    acc = started ? combine(acc, value) : value;
    started = true;
  }
  if constexpr (Threads > 1) {
    const int64_t length = end - begin;
#pragma unroll
    for (int distance = Threads / 2; distance > 0; distance /= 2) {
      const W other = shuffle_down(acc, distance, Threads);
      if (lane < distance && lane + distance < length) acc = combine(acc, other);
    }
  }
  if (lane == 0) store_one<T>(at.out + range * p.s[s_out_step], narrow<T>(acc));
}

#define QUARRY_KERNEL(name, call) \
  extern "C" __global__ void __launch_bounds__(kBlock) name(const __grid_constant__ Params p) { call(p); }
QUARRY_KERNEL(quarry_scan_lines, (run_lines<In, T>))
QUARRY_KERNEL(quarry_scan_rows, (run_rows<In, T>))
QUARRY_KERNEL(quarry_scan_partial_lines, (run_lines<W, W>))
QUARRY_KERNEL(quarry_scan_partial_rows, (run_rows<W, W>))
QUARRY_KERNEL(quarry_fold, (run_fold<1>))
QUARRY_KERNEL(quarry_fold_warp, (run_fold<32>))
#undef QUARRY_KERNEL
