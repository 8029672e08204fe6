// PyTorch's distributed checkpoints (torch.distributed.checkpoint): `.metadata` and files of
// tensors. FSDP1's, FSDP2's and accelerate's sharded state dicts are such folders.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backend/checkpoint/torch_archive.h"
#include "core/model/model.h"

namespace shardscope {

inline constexpr std::string_view dcp_metadata_name = ".metadata";

/// Whether a folder has a `.metadata`.
bool is_dcp_folder(const std::filesystem::path& folder);

class DcpReader {
 public:
  /// Throws Error for what is malformed or missing. Metadata is read as data; nothing of it is
  /// executed. Values that are no tensors are passed over.
  explicit DcpReader(std::filesystem::path folder);

  const std::filesystem::path& folder() const { return folder_; }
  /// Names as in the state dict: "model.transformer.wte.weight".
  std::vector<std::string> names() const;
  const Shape& shape(const std::string& name) const;
  /// Elements [first, first + out.size()) of a tensor, as float. Each chunk's checksum is compared
  /// once.
  void read(const std::string& name, std::int64_t first, std::span<float> out);

 private:
  struct Chunk {
    Shape offsets, sizes;
    std::size_t file = 0;
    std::int64_t archive_offset = 0, archive_bytes = 0;
    bool is_open = false;
    ArchivedTensor tensor;
  };
  struct Tensor {
    Shape shape;
    std::vector<Chunk> chunks;
  };
  /// Elements that lie together in a tensor and in one of its chunks.
  struct Run {
    Chunk* chunk = nullptr;  ///< null: no chunk has them
    std::int64_t in_chunk = 0;
    std::int64_t elements = 0;
  };

  void read_metadata();
  static Run run_at(Tensor& tensor, std::int64_t first);
  void open_chunk(const std::string& name, Chunk& chunk);
  std::size_t file_of(const std::string& name);
  Error error(std::string what) const;

  std::filesystem::path folder_;
  std::vector<PositionedFile> files_;
  std::map<std::string, std::size_t> file_numbers_;
  std::map<std::string, Tensor> tensors_;
  std::vector<std::byte> bytes_;
};

}  // namespace shardscope
