#include "core/pytorch/engine/storage.h"

#include <utility>

#include "core/pytorch/engine/session.h"

namespace shardscope::eager {

StorageImpl::StorageImpl(Session& s, const Request& request)
    : session_(&s),
      id_(s.take_storage_id()),
      bytes_(request.bytes),
      device_(request.device),
      stream_(request.stream),
      pinned_(request.pinned) {}

Storage StorageImpl::allocate(Session& s, const Request& request) {
  Storage storage(new StorageImpl(s, request));
  // An operator of a selective recomputation may turn out not to run.
  if (!s.selective_replay) storage->tell_allocated();
  return storage;
}

void StorageImpl::tell_allocated() {
  if (std::exchange(told_, true)) return;
  session_->tell([&](Observer& o) { o.on_storage_allocated(*session_, *this); });
}

void StorageImpl::resize(Bytes bytes) {
  const Bytes before = bytes_;
  if (bytes == before) return;
  bytes_ = bytes;
  if (before == Bytes{}) stream_ = session_->stream;
  session_->tell([&](Observer& o) { o.on_storage_resized(*session_, *this, before); });
}

void StorageImpl::release_last() {
  if (session_->held_by_frames) {
    session_->held_by_frames->push_back(Storage(this));
    return;
  }
  if (told_) session_->tell([&](Observer& o) { o.on_storage_freed(*session_, *this); });
  delete this;
}

}  // namespace shardscope::eager
