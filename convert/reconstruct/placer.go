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
	twisters  pyrand.MT19937x4
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
		for k := 0; k < len(dst); k += 4 {
			w.mtBlocks(dst[k:min(k+4, len(dst))], scope, id+int64(k))
		}
		return
	}
	w.buf = append(append(w.buf[:0], scope...), 0, 0, 0, 0, 0, 0, 0, 0)
	if w.edges != nil && (w.list == nil || w.list.tokens != blockSize) {
		w.list = w.edges.list(blockSize)
	}
	var draws [64]uint64 // first the hashes, then the places, whose reads need not wait for each other
	for len(dst) > 0 {
		n := min(len(dst), len(draws))
		for k := range n {
			binary.LittleEndian.PutUint64(w.buf[len(scope):], uint64(id+int64(k)))
			draws[k] = xxh3.HashSeed(w.buf, uint64(w.placement.Seed))
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

// mtBlocks is AIPerf's rule for up to four blocks: the first draw of a Mersenne Twister seeded by a hash of base seed, scope and
// id.
func (w *Placer) mtBlocks(dst []uint32, scope string, id int64) {
	var seeds [4]uint64
	for k := range dst {
		seeds[k] = w.blockSeed(scope, id+int64(k))
	}
	w.twisters.Seed(&seeds)
	for k := range dst {
		dst[k] = w.twisters.Below(k, uint32(w.n))
	}
}

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
