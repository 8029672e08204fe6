// Reads tensors out of a checkpoint, however it was laid out, and checks what it reads.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backend/checkpoint/checkpoint_index.h"
#include "core/format/safetensors.h"

namespace shardscope {

/// The files stay open, so that the checkpoint can still be read after its folder was removed. Not
/// for two threads at once.
class CheckpointReader {
 public:
  /// Throws Error where index or files are missing, damaged or contradict each other. Tensors are
  /// checked as they are read.
  explicit CheckpointReader(std::filesystem::path folder);

  const std::filesystem::path& folder() const { return folder_; }
  const CheckpointIndex& index() const { return index_; }

  /// A whole tensor, put together from its pieces.
  struct Tensor {
    std::string name;
    Shape shape;
    Dtype dtype = Dtype::float32;
    std::int64_t elements() const { return elements_of(shape); }
  };
  /// By name.
  std::vector<Tensor> tensors() const;
  std::optional<Tensor> find(const std::string& name) const;
  /// The states of parameters that it holds ("parameters", "exp_avg"), by name.
  std::vector<std::string> states() const;

  /// Elements [first, first + out.size()) of a tensor, as float. Throws Error naming file and
  /// tensor: not there, a stretch that no piece covers, a checksum that is wrong.
  void read(const std::string& tensor, std::int64_t first, std::span<float> out);

  /// Bytes of tensors read so far, and of chunks read to check them.
  std::int64_t bytes_read() const { return bytes_read_; }

  /// Reads all of every file. A line for each fault.
  std::vector<std::string> verify();

 private:
  struct Place {
    std::size_t file = 0;
    const StoredKey* key = nullptr;
    const StoredPiece* piece = nullptr;
  };
  struct Entry {
    Shape shape;
    Dtype dtype = Dtype::float32;
    std::vector<Place> places;  ///< by first element
  };

  void open_files();
  void add_piece(std::size_t file, const StoredKey& key, const StoredPiece& piece);
  const Place& place_at(const Entry& entry, const std::string& tensor, std::int64_t first) const;
  /// Elements of a stored tensor, with the chunks that they lie in checked.
  void read_checked(const Place& place, std::int64_t first, std::span<float> out);
  Error error(std::string what) const;

  std::filesystem::path folder_;
  CheckpointIndex index_;
  std::vector<SafetensorsFile> files_;
  std::map<std::string, Entry> entries_;
  std::vector<std::byte> chunks_;  ///< of the read in hand
  std::int64_t bytes_read_ = 0;
};

}  // namespace shardscope
