package reconstruct

import (
	"crypto/sha256"
	"encoding/binary"
	"math/bits"
	"slices"
	"strconv"

	"github.com/zeebo/xxh3"

	"github.com/agentx/agentx/convert/rules"
	"github.com/agentx/agentx/internal/pyrand"
)

// Placer computes where blocks and fillers begin in a corpus: doc/spec/reconstruction.md 2.2 and 3.2. It is not safe for
// concurrent use.
type Placer struct {
	Windows int // that were placed
	Inexact int // those that Exact has placed as XXH3 does, because no place has edges for them

	n         uint64     // tokens of the corpus
	edges     *Edges     // of Exact; nil: places are those of XXH3
	list      *placeList // of the last size of a block; nil: none
	nowhere   []int      // lengths for which no place has edges
	placement rules.Placement
	buf       []byte
	twisters  pyrand.Twisters
	base      []byte // base seed in decimal, for SHA256MT
}

// NewPlacer returns a Placer for a corpus of n tokens. edges are for Exact, which without any places windows as XXH3 does.
func NewPlacer(p rules.Placement, n int, edges *Edges) *Placer {
	w := &Placer{n: uint64(n), placement: p}
	if p.WithDefaults().Backend == rules.Exact {
		w.edges = edges
	}
	if p.Backend == rules.SHA256MT {
		w.base = strconv.AppendUint(nil, baseSeed(deriveSeed(uint64(p.Seed), p.Stream)), 10)
	}
	return w
}

// Blocks computes where the blocks of the hash ids id, id+1, ... begin, and writes one offset into the corpus, in tokens, for
// each element of dst.
func (w *Placer) Blocks(dst []uint32, scope string, id int64, blockSize int) {
	w.Windows += len(dst)
	if w.placement.Backend == rules.SHA256MT {
		for k := 0; k < len(dst); k += pyrand.Lanes {
			w.mtBlocks(dst[k:min(k+pyrand.Lanes, len(dst))], scope, id+int64(k))
		}
		return
	}
	if w.edges != nil && (w.list == nil || w.list.tokens != blockSize) {
		w.list = w.edges.list(blockSize)
	}
	var draws [64]uint64 // first the names, then the hashes, then the places: what one step reads was not written just before
	size := len(scope) + 8
	w.buf = w.buf[:0]
	for range min(len(dst), len(draws)) {
		w.buf = append(append(w.buf, scope...), 0, 0, 0, 0, 0, 0, 0, 0)
	}
	for len(dst) > 0 {
		n := min(len(dst), len(draws))
		for k := range n {
			binary.LittleEndian.PutUint64(w.buf[k*size+len(scope):], uint64(id+int64(k)))
		}
		for k := range n {
			draws[k] = xxh3.HashSeed(w.buf[k*size:(k+1)*size], uint64(w.placement.Seed))
		}
		w.placeBlocks(dst[:n], draws[:n], blockSize)
		dst, id = dst[n:], id+int64(n)
	}
}

// placeBlocks writes where blocks begin by their draws.
func (w *Placer) placeBlocks(dst []uint32, draws []uint64, blockSize int) {
	listed := w.list != nil && len(w.list.places) > 0
	for k, x := range draws {
		if listed {
			dst[k] = w.list.pick(x)
		} else {
			dst[k] = w.place(x, blockSize)
		}
	}
}

// WithHeads returns where a block begins of which prompts have heads, too, of some numbers of tokens. start is where Blocks has it.
// Exact wants edges behind the heads as well.
func (w *Placer) WithHeads(start uint32, scope string, id int64, blockSize int, heads []int) uint32 {
	w.Windows += len(heads)
	if w.edges == nil {
		return start
	}
	w.buf = binary.LittleEndian.AppendUint64(append(w.buf[:0], scope...), uint64(id))
	if place, ok := w.edges.pick(xxh3.HashSeed(w.buf, uint64(w.placement.Seed)), append(heads, blockSize)...); ok {
		return place
	}
	w.Inexact += len(heads)
	return start
}

// place returns where a window of n tokens begins by a draw.
func (w *Placer) place(x uint64, n int) uint32 {
	if w.edges != nil {
		if !slices.Contains(w.nowhere, n) {
			if start, ok := w.edges.pick(x, n); ok {
				return start
			}
			w.nowhere = append(w.nowhere, n)
		}
		w.Inexact++
	}
	if uint64(n) > w.n {
		return 0
	}
	high, _ := bits.Mul64(x, w.n-uint64(n)+1)
	return uint32(high)
}

// mtBlocks is AIPerf's rule for up to pyrand.Lanes blocks: the first draw of a Mersenne Twister seeded by a hash of base seed, scope and
// id.
func (w *Placer) mtBlocks(dst []uint32, scope string, id int64) {
	var seeds [pyrand.Lanes]uint64
	for k := range dst {
		seeds[k] = w.blockSeed(scope, id+int64(k))
	}
	w.twisters.Seed(&seeds)
	for k := range dst {
		dst[k] = w.twisters.Below(k, uint32(w.n))
	}
}

// blockSeed returns AIPerf's seed of the draw for a block: doc/spec/reconstruction.md 2.2.
func (w *Placer) blockSeed(scope string, id int64) uint64 {
	w.buf = append(append(w.buf[:0], w.base...), ':')
	w.buf = append(append(w.buf, scope...), ':')
	w.buf = strconv.AppendInt(w.buf, id, 10)
	return hash64(w.buf)
}

// Filler returns where the filler of turn k of a session begins, as an offset into the corpus, in tokens. The filler has n
// tokens; where n exceeds the corpus, it begins at 0.
func (w *Placer) Filler(session string, k, n int) uint32 {
	w.buf = append(append(w.buf[:0], session...), ":turn_"...)
	w.buf = append(strconv.AppendInt(w.buf, int64(k), 10), ":partial_tail"...)
	w.Windows++
	return w.filler(w.buf, n)
}

// filler returns where a filler of n tokens begins, by the hash of its name.
func (w *Placer) filler(seed []byte, n int) uint32 {
	if w.placement.Backend != rules.SHA256MT {
		return w.place(xxh3.HashSeed(seed, uint64(w.placement.Seed)), n)
	}
	if uint64(n) > w.n {
		return 0
	}
	return uint32(hash64(seed) % max(w.n-uint64(n), 1))
}

// deriveSeed returns the child seed of a root seed for an identifier: doc/spec/reconstruction.md 2.1.
func deriveSeed(root uint64, identifier string) uint64 {
	return hash64([]byte(strconv.FormatUint(root, 10) + ":" + identifier))
}

// baseSeed replaces a child seed of 0 by a constant (D14).
func baseSeed(child uint64) uint64 {
	if child == 0 {
		return 7758176404715800194
	}
	return child
}

// hash64 returns the first 8 bytes of SHA-256 as a big-endian number.
func hash64(message []byte) uint64 {
	sum := sha256.Sum256(message)
	return binary.BigEndian.Uint64(sum[:8])
}

// Edges say where windows of a corpus may begin and end, so that a tokenizer gives their tokens again, whatever other windows stand beside
// them: doc/spec/reconstruction.md 2.8. Goroutines may share them.
type Edges struct {
	Starts []uint64 // bit k: a window may begin with token k
	Ends   []uint64 // bit k: a window may end before token k
	Flaws  []uint32 // tokens that no window may contain, ascending
}

// pick returns the place that a draw chooses of those at which windows of all the lengths may begin; false if there is none. A draw
// chooses a stretch of 64 tokens, and of its places one. If the stretch has none, the next stretch takes its turn.
func (e *Edges) pick(x uint64, lengths ...int) (start uint32, ok bool) {
	stretches := uint64(len(e.Starts))
	stretch, rest := bits.Mul64(x, stretches)
	for range stretches {
		if places := e.places(stretch, lengths); places != 0 {
			k, _ := bits.Mul64(rest, uint64(bits.OnesCount64(places)))
			for range k {
				places &= places - 1
			}
			return uint32(64*stretch) + uint32(bits.TrailingZeros64(places)), true
		}
		if stretch++; stretch == stretches {
			stretch = 0
		}
	}
	return 0, false
}

// places returns the tokens of a stretch, as bits, at which windows of all the lengths may begin.
func (e *Edges) places(stretch uint64, lengths []int) uint64 {
	places := e.Starts[stretch]
	longest := 0
	for _, n := range lengths {
		places &= bitsFrom(e.Ends, 64*stretch+uint64(n))
		longest = max(longest, n)
	}
	if len(e.Flaws) == 0 {
		return places
	}
	sound := places
	for left := places; left != 0; left &= left - 1 {
		start := uint32(64*stretch) + uint32(bits.TrailingZeros64(left))
		if k, _ := slices.BinarySearch(e.Flaws, start); k < len(e.Flaws) && int(e.Flaws[k]-start) < longest {
			sound &^= left & -left
		}
	}
	return sound
}

// First returns the first token at which windows of all the lengths may begin; false if there is none.
func (e *Edges) First(lengths ...int) (start uint32, ok bool) {
	for stretch := range uint64(len(e.Starts)) {
		if places := e.places(stretch, lengths); places != 0 {
			return uint32(64*stretch) + uint32(bits.TrailingZeros64(places)), true
		}
	}
	return 0, false
}

// placeList lists the places of windows of one length, for many draws.
type placeList struct {
	tokens    int // of a window
	places    []uint32
	stretches []placeSpan
}

// placeSpan are the places of a stretch in a placeList, or if it has none, those of the next one.
type placeSpan struct{ first, count uint32 }

// list lists the places of windows of n tokens.
func (e *Edges) list(n int) *placeList {
	l := &placeList{tokens: n, stretches: make([]placeSpan, len(e.Starts))}
	for stretch := range e.Starts {
		first := len(l.places)
		for left := e.places(uint64(stretch), []int{n}); left != 0; left &= left - 1 {
			l.places = append(l.places, uint32(64*stretch+bits.TrailingZeros64(left)))
		}
		l.stretches[stretch] = placeSpan{uint32(first), uint32(len(l.places) - first)}
	}
	var next placeSpan
	for k := 2*len(l.stretches) - 1; k >= 0; k-- { // twice around, for those that reach over the end
		if s := &l.stretches[k%len(l.stretches)]; s.count > 0 {
			next = *s
		} else {
			*s = next
		}
	}
	return l
}

// pick chooses as Edges.pick does. The list is not empty.
func (l *placeList) pick(x uint64) uint32 {
	stretch, rest := bits.Mul64(x, uint64(len(l.stretches)))
	s := l.stretches[stretch]
	k, _ := bits.Mul64(rest, uint64(s.count))
	return l.places[s.first+uint32(k)]
}

// bitsFrom returns the 64 bits of a set from bit k on; those beyond its end are 0.
func bitsFrom(set []uint64, k uint64) uint64 {
	word, shift := k/64, k%64
	if word >= uint64(len(set)) {
		return 0
	}
	list := set[word] >> shift
	if word+1 < uint64(len(set)) {
		list |= set[word+1] << (64 - shift) // nothing for shift 0
	}
	return list
}
