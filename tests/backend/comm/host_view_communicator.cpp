#include "tests/backend/comm/host_view_communicator.h"

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <utility>

namespace shardscope::testing {
namespace {

/// The host's pages and the device's arena that they stand for; both empty while there is none.
struct View {
  DeviceMemory& memory;
  std::span<std::byte> host = {};
  std::byte* device = nullptr;

  bool has(std::span<const std::byte> bytes) const {
    const std::less_equal<const std::byte*> not_behind;
    return not_behind(host.data(), bytes.data()) &&
           not_behind(bytes.data() + bytes.size(), host.data() + host.size());
  }
  std::span<std::byte> on_device(std::span<const std::byte> bytes) const {
    return {device + (bytes.data() - host.data()), bytes.size()};
  }
};

class ViewedArena final : public Arena {
 public:
  ViewedArena(std::shared_ptr<View> view, std::unique_ptr<Arena> device)
      : view_(std::move(view)),
        device_(std::move(device)),
        host_(host_memory().allocate(device_->size())) {
    view_->host = {host_->data(), static_cast<std::size_t>(host_->size().count)};
    view_->device = device_->data();
    view_->memory.copy_out(view_->host, view_->device);
  }
  ~ViewedArena() override { view_->host = {}; }
  ViewedArena(const ViewedArena&) = delete;
  ViewedArena& operator=(const ViewedArena&) = delete;

  std::byte* data() const override { return host_->data(); }
  Bytes size() const override { return host_->size(); }

 private:
  std::shared_ptr<View> view_;
  std::unique_ptr<Arena> device_;
  std::unique_ptr<Arena> host_;
};

class HostViewCommunicator final : public Communicator {
 public:
  HostViewCommunicator(std::unique_ptr<Communicator> inner, std::shared_ptr<View> view)
      : inner_(std::move(inner)), view_(std::move(view)) {}

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  std::string description() const override { return inner_->description(); }
  std::unique_ptr<Arena> allocate_arena(Bytes size) override {
    return std::make_unique<ViewedArena>(view_, inner_->allocate_arena(size));
  }
  void all_gather(std::span<const std::byte> in, std::span<std::byte> out) override {
    inner_->all_gather(brought(in), target(out));
    fetch(out);
  }
  void reduce_scatter(std::span<const std::byte> in, std::span<std::byte> out,
                      Dtype dtype) override {
    inner_->reduce_scatter(brought(in), target(out), dtype);
    fetch(out);
  }
  void all_reduce(std::span<std::byte> data, Dtype dtype) override {
    brought(data);
    inner_->all_reduce(target(data), dtype);
    fetch(data);
  }
  void broadcast(std::span<std::byte> data, int root) override {
    brought(data);
    inner_->broadcast(target(data), root);
    fetch(data);
  }
  void send(std::span<const std::byte> data, int to) override {
    inner_->send(brought(data), to);
    view_->memory.wait();
  }
  void receive(std::span<std::byte> data, int from) override {
    inner_->receive(target(data), from);
    fetch(data);
  }
  void barrier() override { inner_->barrier(); }
  std::unique_ptr<Communicator> split(int color) override {
    return std::make_unique<HostViewCommunicator>(inner_->split(color), view_);
  }

 private:
  std::span<std::byte> target(std::span<std::byte> bytes) const {
    return view_->has(bytes) ? view_->on_device(bytes) : bytes;
  }
  std::span<const std::byte> brought(std::span<const std::byte> bytes) const {
    if (!view_->has(bytes)) return bytes;
    const std::span<std::byte> there = view_->on_device(bytes);
    view_->memory.copy_in(there.data(), bytes);
    return there;
  }
  void fetch(std::span<std::byte> bytes) const {
    if (view_->has(bytes)) view_->memory.copy_out(bytes, view_->on_device(bytes).data());
    view_->memory.wait();
  }

  std::unique_ptr<Communicator> inner_;
  std::shared_ptr<View> view_;
};

}  // namespace

std::unique_ptr<Communicator> make_host_view(std::unique_ptr<Communicator> inner,
                                             DeviceMemory& memory) {
  return std::make_unique<HostViewCommunicator>(std::move(inner),
                                                std::make_shared<View>(View{.memory = memory}));
}

}  // namespace shardscope::testing
