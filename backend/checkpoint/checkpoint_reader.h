// Reads tensors out of a checkpoint of ours, however it was laid out, and checks what it reads.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backend/checkpoint/checkpoint.h"
#include "core/format/safetensors.h"

namespace shardscope {

/// The files stay open, so that the checkpoint can still be read after its folder was removed. Not
/// for two threads at once, but for `verify`, which has threads of its own.
class CheckpointReader final : public Checkpoint {
 public:
  /// Throws Error where index or files are missing, damaged or contradict each other. Tensors are
  /// checked as they are read.
  explicit CheckpointReader(std::filesystem::path folder);

  const std::filesystem::path& folder() const override { return folder_; }
  std::filesystem::path config() const override { return folder_ / "config.json"; }
  const CheckpointIndex& index() const override { return index_; }
  std::vector<Tensor> tensors() const override;
  std::optional<Tensor> find(const std::string& name) const override;
  void read(const std::string& tensor, std::int64_t first, std::span<float> out) override;

  /// Bytes of tensors read so far, and of chunks read to check them.
  std::int64_t bytes_read() const { return bytes_read_; }

  /// Reads all of every file, on `threads` threads. A line for each fault,
  /// of damaged bytes for each 16 MiB.
  std::vector<std::string> verify(int threads);

 private:
  struct Place {
    std::size_t file = 0;
    const StoredKey* key = nullptr;
    const StoredPiece* piece = nullptr;
  };
  /// Bytes of a stored tensor.
  struct Stretch {
    Place place;
    std::int64_t begin = 0, end = 0;
  };
  struct Entry {
    Shape shape;
    Dtype dtype = Dtype::float32;
    std::vector<Place> places;  ///< by first element
  };

  void open_files();
  void add_piece(std::size_t file, const StoredKey& key, const StoredPiece& piece);
  const Place& place_at(const Entry& entry, const std::string& tensor, std::int64_t first) const;
  std::size_t read_some(const Place& place, std::int64_t first, std::span<float> out);
  void read_checked(const Place& place, std::int64_t begin, std::span<std::byte> out) const;
  std::string fault_of(const Stretch& stretch) const;
  void expect(const Stretch& stretch) const;
  std::vector<Stretch> stretches() const;
  void add_holes(std::vector<std::string>& faults) const;
  Error error(std::string what) const;
  DamagedCheckpoint damaged(const Place& place, const std::string& what) const;

  std::filesystem::path folder_;
  CheckpointIndex index_;
  std::vector<SafetensorsFile> files_;
  std::map<std::string, Entry> entries_;
  std::vector<std::byte> chunks_;  ///< of the read in hand, where not all of them is wanted
  std::int64_t bytes_read_ = 0;
};

}  // namespace shardscope
