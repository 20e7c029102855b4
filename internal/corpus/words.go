package corpus

import (
	"fmt"
	"slices"
)

// WordsSHA256 is the digest of Words of o200k_base, as numbers of 4 bytes in little-endian order. Keys of caches contain it beside the
// digest of the tokenizer. A change of Words changes it, and a test fails.
const WordsSHA256 = "09c35408eac8896367ed4e4ff93816b8ed31c5003c1e98cd67d09ccc4f5f6f23"

// WordsTokens is the length of Words.
const WordsTokens = 500_000

// minWords is the least number of words from which Words draws: with fewer, windows would repeat.
const minWords = 1000

// Vocabulary is what Words asks of a tokenizer.
type Vocabulary interface {
	Size() int // above every id
	Bytes(id uint32) ([]byte, bool)
	AppendIDs(ids []uint32, text string) []uint32 // encodes text
}

// Words returns the corpus named "words" for a tokenizer: tokens drawn from those that are a blank and small Latin letters. Every
// pattern cuts a text before each of them, so each encodes to itself, whatever stands beside it.
func Words(v Vocabulary) ([]uint32, error) {
	alphabet := alphabetOf(v)
	if len(alphabet) < minWords {
		return nil, fmt.Errorf("%d tokens are a blank and small letters that encode to themselves: the corpus words wants %d or more", len(alphabet), minWords)
	}
	r := rng{1}
	ids := make([]uint32, WordsTokens)
	for k := range ids {
		ids[k] = pick(&r, alphabet)
	}
	return ids, nil
}

// alphabetOf returns the tokens that are a blank and small letters, without those that do not encode to themselves.
func alphabetOf(v Vocabulary) []uint32 {
	var ids []uint32
	var text []byte
	for id := range uint32(v.Size()) {
		if token, ok := v.Bytes(id); ok && isWord(token) {
			ids, text = append(ids, id), append(text, token...)
		}
	}
	if slices.Equal(v.AppendIDs(nil, string(text)), ids) {
		return ids
	}
	var buf []uint32
	return slices.DeleteFunc(ids, func(id uint32) bool {
		token, _ := v.Bytes(id)
		buf = v.AppendIDs(buf[:0], string(token))
		return len(buf) != 1 || buf[0] != id
	})
}

// isWord reports whether a token is a blank and small letters.
func isWord(token []byte) bool {
	if len(token) < 2 || token[0] != ' ' {
		return false
	}
	for _, b := range token[1:] {
		if b < 'a' || b > 'z' {
			return false
		}
	}
	return true
}
