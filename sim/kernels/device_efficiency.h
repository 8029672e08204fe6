// DeviceEfficiency: what kernels of one GPU architecture get of the data sheet's figures. JSON on
// disk (docs/hardware_profile.md, "efficiency"); every group of figures says where it comes from.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/clock_and_power.h"
#include "core/base/quantities.h"
#include "core/format/json_reader.h"
#include "core/schedule/device_work.h"
#include "sim/hardware/provenance.h"

namespace shardscope {

/// One block of a matrix product that a multiprocessor computes at a time.
struct MatmulTile {
  std::int64_t m = 128, n = 128;
  double efficiency = 1;  ///< of the rate of the best tile
  bool operator==(const MatmulTile&) const = default;
};

/// What large products of 16 bits reach of the peak on one card, where somebody measured it. Cards
/// that clock higher than their data sheet says reach more than all of it.
struct CardProducts {
  std::string card;  ///< "GeForce RTX 4090"
  double reached = 1;
  Power power;  ///< the limit that they ran under
  Provenance provenance;
  bool operator==(const CardProducts&) const = default;
};

struct MatmulEfficiency {
  std::vector<MatmulTile> tiles;  ///< the library takes the fastest one for a shape
  /// Of the peak: what the largest products reach in short runs, at the full clock.
  std::map<Dtype, double> reached;
  /// Of the full clock: what long training steps keep under `power`, the limit of the GPU that it
  /// was seen on. Of products on tensor cores; float32's draw less.
  double clock = 1;
  Power power;
  /// Of the rate, where a row of a factor or of the result is no multiple of 16 bytes.
  double unaligned = 1;
  /// The same of batched products in 16 bits whose shortest dimension is none either: of attention
  /// by hand with such heads. None: as of others.
  std::optional<double> unaligned_batch;
  /// Relative standard deviations of batched products, and of those that `unaligned_batch` is for.
  /// 0: as of others.
  double batched_spread = 0, unaligned_batch_spread = 0;
  /// Of the rate of products of 8 bits, where every 128 elements of depth the sums go on in float32
  /// outside of the tensor cores: all but those of fast accumulation.
  double precise_sums = 1;
  Duration prologue;  ///< of each wave of tiles: the pipeline fills, the result is written
  /// How much of a last, not full wave is lost: 1: all (data-parallel tiles), 0: none (stream-k).
  double wave_loss = 1;
  std::vector<CardProducts> cards;  ///< in the place of `reached` and `clock`
  Provenance provenance;
  bool operator==(const MatmulEfficiency&) const = default;
};

/// Shares of the data sheet's memory bandwidth by kind of work.
struct MemoryEfficiency {
  std::map<WorkKind, double> share;
  /// Share of the pointwise rate for torch.compile's kernels that scale and write the transpose
  /// (uncoalesced writes).
  double transposed_casts = 1;
  Duration latency;  ///< of a kernel that moves next to nothing
  Provenance provenance;
  bool operator==(const MemoryEfficiency&) const = default;
};

/// Of one library and head size. Rate at `n` keys: share * peak * n / (n + half_length).
struct AttentionEfficiency {
  AttentionLibrary library = AttentionLibrary::flash;
  std::int64_t head_dim = 128;
  double forward = 0;  ///< share of the peak that long sequences reach
  double backward = 0;
  std::int64_t half_length = 0;  ///< keys at which half of that is reached
  /// Power limit of the GPUs that this was measured on. A lower limit lowers the clock. 0: not
  /// known.
  Power power;
  Provenance provenance;
  bool operator==(const AttentionEfficiency&) const = default;
};

/// cuDNN's convolutions on tensor cores, by dtype of their tensors (float32: computed as TF32).
struct ConvolutionEfficiency {
  /// Of the rate that a product of matrices of the same shape reaches.
  std::map<Dtype, double> forward, backward;
  /// Of one multiprocessor, where the channels of a group do not fill the 16 bytes that are loaded
  /// at once.
  FlopRate few_channels;
  Provenance provenance;
  bool operator==(const ConvolutionEfficiency&) const = default;
};

/// cuDNN's recurrent networks.
struct RecurrentEfficiency {
  /// What issuing the kernels of one step of one layer takes.
  Duration forward, backward;
  /// Where one kernel keeps the weights for all steps: what a step takes besides its flops at the
  /// rate.
  Duration persistent_forward, persistent_backward;
  FlopRate persistent_forward_rate, persistent_backward_rate;
  Provenance provenance;
  bool operator==(const RecurrentEfficiency&) const = default;
};

/// What collectives that run beside kernels take of them.
struct SharingEfficiency {
  int multiprocessors = 0;  ///< that a collective's channels occupy
  Provenance provenance;
  bool operator==(const SharingEfficiency&) const = default;
};

struct DeviceEfficiency {
  std::string name;            ///< "ampere"
  int compute_capability = 0;  ///< the first that it is for: 80 is 8.0
  MatmulEfficiency matmul;
  MemoryEfficiency memory;
  std::vector<AttentionEfficiency> attention;
  ConvolutionEfficiency convolution;
  RecurrentEfficiency recurrent;
  SharingEfficiency sharing;
  bool operator==(const DeviceEfficiency&) const = default;
};

/// Of a dtype that has no figure: the smallest that stands there, so that nothing looks faster than
/// it is.
double share_of(const std::map<Dtype, double>& shares, Dtype dtype);
/// The share that short runs reach, as `share_of`.
double reached_share(const MatmulEfficiency& efficiency, Dtype dtype);
/// Of a kind that has no figure: pointwise's.
double bandwidth_share(const MemoryEfficiency& efficiency, WorkKind kind);

/// Reads an efficiency file or section; throws Error with file, line and key.
DeviceEfficiency read_device_efficiency(const JsonValue& root);

/// The ready one (sim/profiles/efficiency) for a GPU of this compute capability: the newest that is
/// not newer, else the oldest.
const DeviceEfficiency& efficiency_of(int compute_capability);

}  // namespace shardscope
