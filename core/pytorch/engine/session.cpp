#include "core/pytorch/engine/session.h"

#include <stdexcept>

#include "core/pytorch/engine/engine.h"

namespace shardscope::eager {

Session::Session(SessionSettings with)
    : settings(std::move(with)), engine_(std::make_unique<Engine>(*this)) {}

Session::~Session() {
  for (Observer* observer : observers_) observer->watched_ = nullptr;
}

void Session::observe(Observer& observer) {
  if (observer.watched_ != nullptr)
    throw std::logic_error("the observer watches a session already");
  observer.watched_ = this;
  observers_.push_back(&observer);
}

Observer::~Observer() {
  if (watched_ != nullptr) std::erase(watched_->observers_, this);
}

EventId Session::record_event(StreamId of) {
  const EventId event = EventId::of(events_++);
  tell([&](Observer& o) { o.on_event_record(*this, event, of); });
  return event;
}

void Session::wait_event(StreamId waiting, EventId event) {
  tell([&](Observer& o) { o.on_event_wait(*this, event, waiting); });
}

void Session::wait_stream(StreamId waiting, StreamId of) {
  tell([&](Observer& o) { o.on_stream_wait(*this, waiting, of); });
}

void Session::record_stream(const Tensor& tensor, StreamId on) {
  tell([&](Observer& o) { o.on_record_stream(*this, *tensor.storage().get(), on); });
}

void Session::host_wait(EventId event) {
  tell([&](Observer& o) { o.on_host_wait(*this, event); });
}

void Session::empty_cache() {
  tell([&](Observer& o) { o.on_cache_emptied(*this); });
}

void Session::host_sync() {
  tell([&](Observer& o) { o.on_host_sync(*this); });
}

void Session::mark(const Mark& m) {
  tell([&](Observer& o) { o.on_mark(*this, m); });
}

void Session::module_hook(std::string_view name) {
  tell([&](Observer& o) { o.on_module_hook(*this, name); });
}

WorkId Session::collective(CollectiveCall call) {
  if (call.asynchronous) call.work = WorkId::of(works_++);
  tell([&](Observer& o) { o.on_collective(*this, call); });
  return call.work;
}

void Session::wait_work(WorkId work) {
  if (!work) return;
  tell([&](Observer& o) { o.on_work_wait(*this, work, stream); });
}

}  // namespace shardscope::eager
