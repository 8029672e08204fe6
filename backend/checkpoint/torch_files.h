// Files of torch.save with the tensors in them, read piece by piece.
#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "backend/checkpoint/foreign_checkpoint.h"
#include "backend/checkpoint/torch_archive.h"

namespace shardscope {

/// A stretch of a whole tensor, and where a file has it. In elements.
struct TorchPiece {
  std::int64_t first = 0;  ///< in the whole tensor
  std::int64_t elements = 0;
  std::size_t file = 0;
  ArchivedTensor tensor;
  std::int64_t in_tensor = 0;  ///< where the stretch begins in `tensor`
};

/// A storage's checksum is compared when something of it is first read.
class TorchFiles {
 public:
  /// No more than `most_open` files are open at once, at least one: a process may often have 1,024,
  /// and ZeRO's folders have two for each rank.
  explicit TorchFiles(std::size_t most_open = 128) : most_open_(most_open) {}

  /// The number of a file. Throws Error as TorchArchive does.
  std::size_t open(const std::filesystem::path& path);
  const TorchArchive& archive(std::size_t file) const { return files_[file].archive; }
  const Pickle& pickle(std::size_t file) const { return archive(file).pickle(); }

  /// Elements [first, first + out.size()) out of pieces that follow each other. Throws Error: a
  /// damaged storage, each time; a stretch that no piece has.
  void read(const std::string& name, const std::vector<TorchPiece>& pieces, std::int64_t first,
            std::span<float> out);

 private:
  void check(const std::string& name, const TorchPiece& piece);
  /// Open; the one that was opened first is closed for it.
  const PositionedFile& opened(std::size_t file);
  void note_open(std::size_t file);
  struct File {
    explicit File(const std::filesystem::path& path)
        : bytes(path), archive(bytes, 0, bytes.bytes()) {}
    PositionedFile bytes;
    TorchArchive archive;
  };

  std::size_t most_open_;
  std::deque<File> files_;
  std::deque<std::size_t> open_;  ///< files, as they were opened
  /// By file and offset of a storage: what its check found, nothing where it is whole.
  std::map<std::pair<std::size_t, std::int64_t>, std::optional<Error>> checked_;
  std::vector<std::byte> scratch_;
};

/// A tensor whose pieces follow each other.
ForeignTensor tensor_of(std::shared_ptr<TorchFiles> files, const std::string& name, Shape shape,
                        std::vector<TorchPiece> pieces);
/// The whole of an archived tensor.
ForeignTensor tensor_of(std::shared_ptr<TorchFiles> files, const std::string& name,
                        std::size_t file, const ArchivedTensor& tensor);

/// Adds the tensors of a state dict by their keys, nested ones with dots between: "state.0.step".
/// Numbers called "step" become tensors of one element. All else is passed over. Throws Error for
/// too many values, and for names or nesting out of bounds.
void add_state_dict(const std::shared_ptr<TorchFiles>& files, std::size_t file, PickleValue dict,
                    std::map<std::string, ForeignTensor>& tensors);

/// How many parameters each param_group of an optimizer's state dict lists; empty where it has no
/// groups. Throws Error for too many groups.
std::vector<std::int64_t> group_sizes_of(const Pickle& pickle, PickleValue optimizer);

}  // namespace shardscope
