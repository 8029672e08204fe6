#include "backend/comm/shared_text.h"

#include <cstdint>
#include <span>

namespace shardscope {

std::string shared_text(std::string text, int from, Communicator& world) {
  auto length = static_cast<std::int64_t>(text.size());
  world.broadcast(std::as_writable_bytes(std::span(&length, 1)), from);
  text.resize(static_cast<std::size_t>(length));
  if (length > 0) world.broadcast(std::as_writable_bytes(std::span(text)), from);
  return text;
}

}  // namespace shardscope
