// A verb of the program: a name, a line about it, and what declares its command line.
#pragma once

#include <string_view>

#include "cli/command.h"

namespace shardscope {

struct Verb {
  std::string_view name;
  std::string_view summary;
  void (*declare)(Command& command);
};

void declare_model(Command& command);
void declare_schedule(Command& command);
void declare_simulate(Command& command);
void declare_calibrate(Command& command);
void declare_checkpoint(Command& command);
void declare_train(Command& command);
void declare_compare(Command& command);
void declare_convert(Command& command);
void declare_data(Command& command);
void declare_doctor(Command& command);
void declare_fit(Command& command);
void declare_gui(Command& command);
void declare_import(Command& command);
void declare_init(Command& command);
void declare_lint(Command& command);
void declare_plan(Command& command);
void declare_profile(Command& command);
void declare_record(Command& command);
void declare_report(Command& command);
void declare_validate(Command& command);

}  // namespace shardscope
