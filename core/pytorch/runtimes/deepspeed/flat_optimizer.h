// DeepSpeedZeroOptimizer: ZeRO stages 1 and 2.
// Source: deepspeed 0.19.8, runtime/zero/stage_1_and_2.py.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <vector>

#include "core/pytorch/engine/copies.h"
#include "core/pytorch/runtimes/deepspeed/flat_group.h"

namespace shardscope::eager::deepspeed {

class FlatOptimizer final : public ZeroOptimizerBase {
 public:
  explicit FlatOptimizer(Setup setup);

  void start_forward() override;
  Tensor scale(const Tensor& loss) override;
  void start_backward() override;
  void end_backward() override;
  void step() override;
  void zero_grad() override;
  std::vector<HeldTensor> held() const override;

 private:
  /// Where a parameter stands: its group, and its place in the group's layout.
  struct Place {
    std::size_t group = 0;
    std::size_t place = 0;
    bool in_partition = false;
  };
  /// A part of the bucket with one owner.
  struct OwnedPart {
    int owner = 0;
    std::int64_t offset = 0;  ///< in the bucket
    std::int64_t elements = 0;
    Tensor output;  ///< of the partition's float32 buffer, or none
  };

  /// A parameter's averaged gradient, or the zeros between two.
  struct PartitionPart {
    Tensor tensor;
    bool is_padding = false;
  };

  void register_hooks();
  void gradient_hook(std::size_t parameter);
  void set_up_buckets();
  void enter(std::size_t parameter);
  void copy_into_bucket(std::size_t parameter, const Tensor& gradient);
  void reduce_bucket();
  void reduce_contiguous();
  void reduce_scattered_grads();
  void average(const Tensor& tensor);
  std::vector<OwnedPart> owned_parts();
  void reduce_parts(const Tensor& tensor, const std::vector<OwnedPart>& parts);
  void reduce_to(const Tensor& tensor, const std::vector<OwnedPart>& parts,
                 std::optional<int> destination);
  Tensor reduced(const std::vector<Stretch>& slices, std::optional<int> owner, bool divide);
  void all_reduce_whole(const Tensor& tensor);
  void finish_bucket();
  void keep_in_partition(std::size_t parameter);
  void offload(std::size_t parameter);
  void accumulate_on_host(std::size_t parameter, const Tensor& gradient);
  std::optional<EventId> protecting_event() const;
  void protect(const Tensor& tensor) const;
  void wait_for_offload_copies();
  PartitionSlice own_slice(std::size_t parameter) const;

  void finish_reductions();
  void epilogue();
  void accumulate_group(std::size_t group);
  std::vector<PartitionPart> flat_partition(std::size_t group);
  Tensors gradients_in_partition(std::size_t group) const;
  const Tensor& compact_partition(std::size_t group);
  std::int64_t start_in_partition(std::size_t group, std::size_t place) const;
  void check_overflow();
  Tensor invalid_partitions();
  Tensor group_norm(std::size_t group);
  Tensor offloaded_norm(std::size_t group);
  Tensor global_norm();
  void unscale_and_clip(const Tensor& gradient, const Tensor& norm);
  void step_group(std::size_t group, const Tensor& norm);
  void offloaded_step(std::size_t group, const Tensor& norm);
  void all_gather_parameters();

  const Tensor& gradient_of(std::size_t parameter) const;
  void clear_gradient(std::size_t parameter);
  const Tensor& parameter(std::size_t index) const { return setup_.parameters[index].tensor(); }
  bool partitions_gradients() const { return setup_.settings.stage == 2; }
  bool offloads() const { return setup_.settings.offload_optimizer.device != OffloadDevice::none; }
  bool compact() const;
  StreamId reduction_stream() const;

  Setup setup_;
  std::vector<FlatGroup> groups_;
  std::vector<Place> places_;   ///< by parameter
  bool separate_accumulation_;  ///< gradients add up in an attribute of their own
  Tensors accumulated_;         ///< by parameter: .grad_accum
  StreamId reduction_stream_;

  struct Bucket {
    Tensors buffers;  ///< one, or two with overlap_comm
    std::size_t index = 0;
    std::int64_t elements = 0;
    ParameterIndices parameters;
    Tensors gradients;
    std::optional<std::size_t> oversized;
    std::optional<EventId> ready;                   ///< its gradients are in the buffer
    std::array<std::optional<EventId>, 2> reuse{};  ///< by buffer: it was read
  } bucket_;
  bool ready_for_gradients_ = false;
  ParameterIndices reduced_before_;  ///< cleared with the next reduction
  Tensor grads_in_partition_;
  std::int64_t partition_fill_ = 0;
  std::vector<Tensors> all_gradients_;  ///< by group
  /// By group, in the order of the partition.
  std::vector<std::vector<PartitionPart>> averaged_gradients_;
  Tensors compact_partitions_;  ///< by group: float32 sums
  bool epilogue_ran_ = false;
  int micro_step_ = -1;
  Tensor accumulation_buffer_;   ///< of offload: as large as the largest parameter
  Tensors accumulated_on_host_;  ///< by parameter
  Tensors offloaded_norms_;      ///< by parameter: of this step
  std::optional<EventId> offload_copied_;
};

}  // namespace shardscope::eager::deepspeed
