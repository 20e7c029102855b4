package tokenizer

import (
	"slices"
	"sort"
	"strings"
)

// addedTokens are tokens that are found in a text before it is cut into pieces.
type addedTokens struct {
	model           *model
	raw, normalized *tokenFinder // in the text as it is, and after it is normalized; nil: none
}

// tokenFinder finds added tokens in a text, the longest of those that begin at the first place where one does.
type tokenFinder struct {
	first   [256]bool    // by byte: some token begins with it
	tokens  []addedToken // sorted by content
	longest int          // number of bytes of the longest
}

// newFinder returns a finder of tokens, nil if there are none. Of two with the same content the first counts.
func newFinder(tokens []addedToken) *tokenFinder {
	if len(tokens) == 0 {
		return nil
	}
	f := &tokenFinder{tokens: slices.Clone(tokens)}
	slices.SortStableFunc(f.tokens, func(a, b addedToken) int { return strings.Compare(a.content, b.content) })
	f.tokens = slices.CompactFunc(f.tokens, func(a, b addedToken) bool { return a.content == b.content })
	for _, t := range f.tokens {
		f.first[t.content[0]] = true
		f.longest = max(f.longest, len(t.content))
	}
	return f
}

// textPart is a part of a text: an added token, or the text between two.
type textPart struct {
	text    string
	token   uint32
	isToken bool
}

// split yields the parts of a text in turn.
func (a *addedTokens) split(text string, f *tokenFinder) func(yield func(textPart) bool) {
	return func(yield func(textPart) bool) {
		from := 0
		for i := 0; f != nil && i < len(text); {
			if !f.first[text[i]] {
				i++
				continue
			}
			id, length := f.at(text[i:])
			if length == 0 {
				i++
				continue
			}
			if i > from && !yield(textPart{text: text[from:i]}) || !yield(textPart{token: id, isToken: true}) {
				return
			}
			i += length
			from = i
		}
		if from < len(text) {
			yield(textPart{text: text[from:]})
		}
	}
}

// at returns the longest token at the beginning of a text; its length is 0 if there is none. It narrows the sorted tokens down to those
// that begin as the text does, byte by byte.
func (f *tokenFinder) at(text string) (id uint32, length int) {
	from, to := 0, len(f.tokens)
	for n := 0; n < len(text); n++ {
		b := text[n]
		from += sort.Search(to-from, func(k int) bool { return f.tokens[from+k].content[n] >= b })
		to = from + sort.Search(to-from, func(k int) bool { return f.tokens[from+k].content[n] > b })
		if from == to {
			break
		}
		if len(f.tokens[from].content) == n+1 { // the shortest is the first
			id, length = f.tokens[from].id, n+1
			if from++; from == to {
				break
			}
		}
	}
	return id, length
}
