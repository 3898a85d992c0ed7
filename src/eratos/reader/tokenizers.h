// How many entries has the vocabulary of a tokenizer? Configurations name the tokenizer only, and
// Megatron takes the length of what it loads.
//
// Worked example: vocabulary_of("mistralai/Mixtral-8x22B-v0.1") is 32000; padded for
// make_vocab_size_divisible_by 128 at tp 1 it stays 32000.
// Source: data/tokenizers.csv, a source each row.
#pragma once

#include <string_view>

namespace eratos::reader {

// By the model's name on the Hugging Face hub, or by Megatron's tokenizer type. 0: not known.
double vocabulary_of(std::string_view tokenizer);

}  // namespace eratos::reader
