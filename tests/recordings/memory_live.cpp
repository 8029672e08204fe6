#include "tests/recordings/memory_live.h"

namespace shardscope::recordings {
namespace {

std::int64_t rounded(Bytes bytes) {
  constexpr std::int64_t block = 512;
  return (bytes.count + block - 1) / block * block;
}

}  // namespace

std::int64_t& LiveStorages::bytes_of(const eager::StorageImpl& storage) {
  const auto id = static_cast<std::size_t>(storage.id());
  if (id >= bytes_.size()) bytes_.resize(id + 1, unknown);
  return bytes_[id];
}

void LiveStorages::add(const eager::StorageImpl& storage) {
  if (storage.device() != eager::Device::cuda) return;
  std::int64_t& bytes = bytes_of(storage);
  if (bytes != unknown) return;
  bytes = rounded(storage.bytes());
  live_ += bytes;
}

void LiveStorages::restart_peak() {
  refresh();
  peak_ = total_;
  peak_at_ = Json::array({"(start)", operators_, phase_});
}

void LiveStorages::on_operator(eager::Session&, const eager::OperatorCall& call) {
  if (unseen_) operators_ += unseen_(call);
  ++operators_;
  name_ = call.op.name;
  for (const eager::TensorImpl* output : call.outputs)
    if (output) add(*output->storage);
  refresh();
  if (keeps_log_) {
    const std::string_view suffix = ".default";
    const bool plain = name_.ends_with(suffix);
    log_.push_back(Json::array(
        {plain ? name_.substr(0, name_.size() - suffix.size()) : name_, phase_, total_}));
  }
  if (total_ <= peak_) return;
  peak_ = total_;
  peak_at_ = here();
}

void LiveStorages::on_storage_freed(eager::Session&, eager::StorageImpl& storage) {
  std::int64_t& bytes = bytes_of(storage);
  if (bytes != unknown) live_ -= bytes;
  bytes = unknown;
}

void LiveStorages::on_storage_resized(eager::Session&, eager::StorageImpl& storage, Bytes) {
  std::int64_t& bytes = bytes_of(storage);
  if (bytes == unknown) return;
  live_ += rounded(storage.bytes()) - bytes;
  bytes = rounded(storage.bytes());
}

}  // namespace shardscope::recordings
