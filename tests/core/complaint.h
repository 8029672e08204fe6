// What an action complains of.
#pragma once

#include <string>

#include "core/base/error.h"

namespace shardscope {

/// The text of the Error that `action` throws; "no complaint" if it throws none.
template <class Action>
std::string complaint_of(Action action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "no complaint";
}

}  // namespace shardscope
