#include "backend/profile/device_record.h"

#include <array>

namespace shardscope {

std::string_view name_of(RecordKind kind) {
  constexpr std::array<std::string_view, 9> names{
      "kernel", "copy",     "set",        "call",   "synchronization",
      "event",  "overhead", "allocation", "release"};
  return names[static_cast<std::size_t>(kind)];
}

bool is_device_work(RecordKind kind) {
  return kind == RecordKind::kernel || kind == RecordKind::copy || kind == RecordKind::set;
}

std::string_view name_of(CopyKind kind) {
  constexpr std::array<std::string_view, 7> names{"",     "HtoD", "DtoH", "DtoD",
                                                  "HtoH", "PtoP", "other"};
  return names[static_cast<std::size_t>(kind)];
}

}  // namespace shardscope
