#include "quarry/scheduler/core/task_fault.h"

#include <gtest/gtest.h>

namespace quarry::scheduler {
namespace {

TEST(TaskFault, MeetsTheTaskOfItsNumberAmongThoseOfItsKind) {
  using When = TaskFault::When;
  TaskFault fault("throw,write,end,2");
  fault.meet(TaskKind::write, When::end);
  fault.meet(TaskKind::write, When::begin);
  fault.meet(TaskKind::read, When::end);
  EXPECT_THROW(fault.meet(TaskKind::write, When::end), local::IoError);
  fault.meet(TaskKind::write, When::end);
  TaskFault any("throw,any,begin,1");
  EXPECT_THROW(any.meet(TaskKind::host, When::begin), local::IoError);
}

TEST(TaskFault, RefusesWhatItDoesNotKnow) {
  for (const char* text :
       {"", "throw", "throw,write,end", "throw,write,end,0", "jump,write,end,1", "throw,sing,end,1"}) {
    EXPECT_THROW(const TaskFault fault(text), local::InvalidArgument) << text;
  }
}

}  // namespace
}  // namespace quarry::scheduler
