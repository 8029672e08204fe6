// A saved state of training, whoever wrote it: whole tensors by name, read piece by piece.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backend/checkpoint/checkpoint_index.h"
#include "core/base/dtype.h"
#include "core/base/error.h"
#include "core/model/model.h"

namespace shardscope {

/// A checkpoint does not hold what was written: a checksum is wrong, or the disk does not give the
/// bytes.
class DamagedCheckpoint : public Error {
 public:
  using Error::Error;
};

class Checkpoint {
 public:
  Checkpoint() = default;
  Checkpoint(const Checkpoint&) = delete;
  Checkpoint& operator=(const Checkpoint&) = delete;
  virtual ~Checkpoint() = default;

  virtual const std::filesystem::path& folder() const = 0;
  /// The config.json of its model.
  virtual std::filesystem::path config() const = 0;
  /// Where training stands. For another library's checkpoint it has what the folder says, and no
  /// files.
  virtual const CheckpointIndex& index() const = 0;

  /// A whole tensor, put together from its pieces.
  struct Tensor {
    std::string name;  ///< as `tensor_name` makes it
    Shape shape;
    Dtype dtype = Dtype::float32;
    std::int64_t elements() const { return elements_of(shape); }
  };
  /// By name.
  virtual std::vector<Tensor> tensors() const = 0;
  virtual std::optional<Tensor> find(const std::string& name) const = 0;
  /// The states of parameters that it holds ("parameters", "exp_avg"), by name.
  std::vector<std::string> states() const;

  /// Elements [first, first + out.size()) of a tensor, as float. Throws Error naming file and
  /// tensor: not there, a stretch that no piece covers. Ours throw DamagedCheckpoint for a wrong
  /// checksum.
  virtual void read(const std::string& tensor, std::int64_t first, std::span<float> out) = 0;
};

}  // namespace shardscope
