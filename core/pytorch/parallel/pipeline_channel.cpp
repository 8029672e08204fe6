#include "core/pytorch/parallel/pipeline_channel.h"

#include <algorithm>
#include <array>
#include <span>

#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/dispatch.h"
#include "core/pytorch/runtimes/common/collectives.h"

namespace shardscope::eager::parallel {
namespace {

constexpr Operator send_op{"c10d.send.default", OperatorKind::other};
constexpr Operator receive_op{"c10d.recv_.default", OperatorKind::other};

const Operator& operator_of(bool sends) { return sends ? send_op : receive_op; }

}  // namespace

std::vector<std::vector<std::pair<int, int>>> connection_rounds(
    const std::vector<int>& rank_of_stage) {
  std::vector<std::pair<int, int>> left;
  for (std::size_t stage = 0; stage + 1 < rank_of_stage.size(); ++stage) {
    const auto [low, high] = std::minmax(rank_of_stage[stage], rank_of_stage[stage + 1]);
    if (low != high) left.emplace_back(low, high);
  }
  std::ranges::sort(left);
  left.erase(std::ranges::unique(left).begin(), left.end());
  std::vector<std::vector<std::pair<int, int>>> rounds;
  while (!left.empty()) {
    std::vector<std::pair<int, int>> round, later;
    const auto is_taken = [&](int rank) {
      return std::ranges::any_of(
          round, [&](const auto& pair) { return pair.first == rank || pair.second == rank; });
    };
    for (const auto& pair : left)
      (is_taken(pair.first) || is_taken(pair.second) ? later : round).push_back(pair);
    rounds.push_back(std::move(round));
    left = std::move(later);
  }
  return rounds;
}

void PipelineChannel::connect(const std::vector<int>& rank_of_stage) {
  if (std::exchange(connected_, true)) return;
  const auto zero = [this] { return zeros(s_, {1}, {Dtype::int32, s_.settings.device}); };
  all_reduce(s_, group_, zero(), "MIN");
  for (const auto& round : connection_rounds(rank_of_stage)) {
    for (const auto& [from, to] : round) {
      if (from == rank()) exchange_number(zero(), to, true);
      if (to == rank()) exchange_number(zero(), from, false);
    }
    all_reduce(s_, group_, zero(), "SUM");
  }
}

void PipelineChannel::exchange_number(const Tensor& number, int peer, bool sends) {
  TransferBatch batch{.transfers = {{number, peer, sends}}, .works = {}};
  wait(batch);
}

WorkId PipelineChannel::issue(const Transfer& transfer) {
  const std::array<const TensorImpl*, 1> one{transfer.tensor.impl()};
  const std::int64_t elements = transfer.tensor.numel();
  return s_.collective({.kind = transfer.sends ? OperationKind::send : OperationKind::receive,
                        .name = operator_of(transfer.sends).name,
                        .group = GroupId::of(static_cast<std::size_t>(group_.id)),
                        .elements_in = transfer.sends ? elements : 0,
                        .elements_out = transfer.sends ? 0 : elements,
                        .dtype = transfer.tensor.dtype(),
                        .root = transfer.peer,
                        .stream = s_.stream,
                        .asynchronous = true,
                        .inputs = one,
                        .outputs = one});
}

void PipelineChannel::post(TransferBatch& batch) {
  const std::span<const Transfer> fresh = std::span(batch.transfers).subspan(batch.works.size());
  for (const Transfer& one : fresh) batch.works.push_back(issue(one));
  for (const Transfer& one : fresh)
    dispatched(s_, operator_of(one.sends), {&one.tensor}, {&one.tensor});
}

void PipelineChannel::post_send(TransferBatch& batch, const Tensor& tensor, int peer) {
  batch.transfers.push_back({tensor, peer, true});
  post(batch);
}

void PipelineChannel::wait(TransferBatch& batch) {
  post(batch);
  for (const WorkId work : batch.works) s_.wait_work(work);
  batch = {};
}

}  // namespace shardscope::eager::parallel
