// The events of a run as the recorder of collectives writes them.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "core/pytorch/engine/session.h"
#include "core/pytorch/runtimes/common/process_group.h"

namespace shardscope::recordings {

/// What the engine tells, turned into the recorder's events; runtimes add their own.
class EventLog : public eager::Observer {
 public:
  using Json = nlohmann::ordered_json;

  explicit EventLog(const eager::ProcessGroups& groups);

  /// Adds an event unless the log is off; returns its position.
  std::optional<std::size_t> add(const char* kind, const Json& fields = Json::object());
  void phase(const std::string& name, std::optional<int> iteration = {},
             std::optional<int> micro_batch = {});
  const std::string& current_phase() const { return phase_; }
  bool in_backward() const { return phase_ == "backward"; }

  /// The functions that are running, outermost first, with the unit that each is of.
  void enter(const std::string& site, std::optional<std::string> unit = {});
  void leave() { sites_.pop_back(); }
  Json unit() const;  ///< of the innermost one that has one; null: none
  std::string site() const;

  void name_stream(eager::StreamId stream, const std::string& name) { streams_[stream] = name; }
  std::string name_of(eager::StreamId stream) const;

  /// Nothing is logged while it is off, but groups are still counted in.
  bool on = true;
  /// DDP: all-reduces of the backward are buckets, in their order.
  bool counts_buckets = false;

  Json events() const { return events_; }
  Json groups() const;  ///< short name to ranks, in the order of their first use

  void on_collective(eager::Session&, const eager::CollectiveCall& call) override;
  void on_event_record(eager::Session&, eager::EventId, eager::StreamId) override;
  void on_event_wait(eager::Session&, eager::EventId, eager::StreamId) override;
  void on_stream_wait(eager::Session&, eager::StreamId, eager::StreamId) override;
  void on_host_wait(eager::Session&, eager::EventId) override;
  /// "enter" and "leave": a function of torch.distributed runs.
  void on_mark(eager::Session&, const eager::Mark& mark) override;

 private:
  struct Running {
    std::string site;
    std::optional<std::string> unit;
  };
  std::string short_name(GroupId group);
  Json unit_of(const eager::CollectiveCall& call);

  const eager::ProcessGroups& all_groups_;
  Json events_ = Json::array();
  std::vector<Running> sites_;
  std::vector<GroupId> used_groups_;
  std::map<eager::StreamId, std::string> streams_;
  std::map<eager::EventId, std::optional<std::size_t>> recorded_at_;
  std::string phase_ = "start";
  int iteration_ = 0, micro_batch_ = 0;
  int collectives_ = 0;
  int buckets_ = 0;
};

}  // namespace shardscope::recordings
