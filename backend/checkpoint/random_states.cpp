#include "backend/checkpoint/random_states.h"

#include <algorithm>
#include <array>
#include <utility>

#include "backend/checkpoint/pickle_text.h"
#include "backend/checkpoint/torch_archive_writer.h"

namespace shardscope {
namespace {

constexpr std::size_t words = 624;
using Words = std::array<std::uint32_t, words>;

// M. Matsumoto and T. Nishimura, mt19937ar.c (2002): init_genrand and init_by_array.
Words seeded(std::uint32_t seed) {
  Words state{seed};
  for (std::uint32_t i = 1; i < words; ++i)
    state[i] = 1812433253U * (state[i - 1] ^ (state[i - 1] >> 30)) + i;
  return state;
}

/// With a key of one word.
Words seeded_by_array(std::uint32_t key) {
  Words state = seeded(19650218U);
  std::size_t i = 1;
  const auto next = [&] {
    if (++i < words) return;
    state[0] = state[words - 1];
    i = 1;
  };
  const auto before = [&] { return state[i - 1] ^ (state[i - 1] >> 30); };
  for (std::size_t k = 0; k < words; ++k, next())
    state[i] = (state[i] ^ (before() * 1664525U)) + key;
  for (std::size_t k = 1; k < words; ++k, next())
    state[i] = (state[i] ^ (before() * 1566083941U)) - static_cast<std::uint32_t>(i);
  state[0] = 0x80000000U;
  return state;
}

void append_word(std::string& bytes, std::uint64_t value, int width) {
  for (int i = 0; i < width; ++i) bytes += static_cast<char>(value >> (8 * i) & 0xff);
}

// CPython 3.11, Lib/random.py and Modules/_randommodule.c: version 3, words and place, no normal
// number kept.
std::string python_state(std::uint32_t seed) {
  std::string items;
  for (const std::uint32_t word : seeded_by_array(seed)) items += pickled(std::int64_t{word});
  items += pickled(std::int64_t{words});
  return pickled_tuple(pickled(std::int64_t{3}) + pickled_tuple(items) + std::string(pickled_none));
}

/// Bytes as a pickle of protocol 2 has them: a text of as many characters.
std::string pickled_bytes(const std::string& bytes) {
  std::string text;
  for (const char byte : bytes) {
    const auto code = static_cast<unsigned char>(byte);
    if (code < 0x80) {
      text += byte;
      continue;
    }
    text += static_cast<char>(0xc0 | code >> 6);
    text += static_cast<char>(0x80 | (code & 0x3f));
  }
  return pickled_call(pickled_name("_codecs", "encode"),
                      pickled_tuple(pickled(text) + pickled("latin1")));
}

constexpr std::string_view build = "b";  ///< opcode: a state for the object before

/// An array of uint32, as NumPy 2 pickles it.
std::string pickled_array(const Words& values) {
  std::string bytes;
  for (const std::uint32_t value : values) append_word(bytes, value, 4);
  const std::string empty = pickled_call(
      pickled_name("numpy._core.multiarray", "_reconstruct"),
      pickled_tuple(pickled_name("numpy", "ndarray") + pickled(Shape{0}) + pickled_bytes("b")));
  const std::string dtype =
      pickled_call(pickled_name("numpy", "dtype"),
                   pickled_tuple(pickled("u4") + pickled_boolean(false) + pickled_boolean(true))) +
      pickled_tuple(pickled(std::int64_t{3}) + pickled("<") + "NNN" + pickled(std::int64_t{-1}) +
                    pickled(std::int64_t{-1}) + pickled(std::int64_t{0})) +
      std::string(build);
  return empty +
         pickled_tuple(pickled(std::int64_t{1}) + pickled(Shape{words}) + dtype +
                       pickled_boolean(false) + pickled_bytes(bytes)) +
         std::string(build);
}

std::string numpy_state(std::uint32_t seed) {
  return pickled_tuple(pickled("MT19937") + pickled_array(seeded(seed)) +
                       pickled(std::int64_t{words}) + pickled(std::int64_t{0}) + pickled_real(0));
}

// torch 2.15, aten/src/ATen/CPUGeneratorImpl.cpp: CPUGeneratorImplState. 64 bits a word.
std::string cpu_bytes(std::uint32_t seed) {
  constexpr std::size_t size = 5056;
  std::string bytes;
  append_word(bytes, seed, 8);
  append_word(bytes, 1, 4);  // words left before the next ones are made
  append_word(bytes, 1, 4);  // is seeded
  append_word(bytes, 0, 8);  // the next word
  for (const std::uint32_t word : seeded(seed)) append_word(bytes, word, 8);
  bytes.resize(size);  // no normal number is kept
  return bytes;
}

// torch 2.15, aten/src/ATen/cuda/CUDAGeneratorImpl.cpp, get_state: seed and offset of Philox.
std::string gpu_bytes(std::uint32_t seed) {
  std::string bytes;
  append_word(bytes, seed, 8);
  append_word(bytes, 0, 8);
  return bytes;
}

}  // namespace

RandomStates seeded_random_states(std::uint32_t seed, int gpus) {
  RandomStates states{.python = python_state(seed),
                      .numpy = numpy_state(seed),
                      .cpu = {},
                      .gpus = {},
                      .storages = {}};
  const auto tensor = [&](std::string bytes) {
    states.storages.push_back(std::move(bytes));
    return pickled_byte_tensor(static_cast<std::int64_t>(states.storages.back().size()),
                               states.storages.size() - 1);
  };
  states.cpu = tensor(cpu_bytes(seed));
  for (int gpu = 0; gpu < gpus; ++gpu) states.gpus.push_back(tensor(gpu_bytes(seed)));
  return states;
}

}  // namespace shardscope
