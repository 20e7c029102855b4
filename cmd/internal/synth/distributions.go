package synth

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"sort"
	"sync"
)

// draws is the chance of one trace. It computes with sums, products and square roots alone, which are the same on every machine.
type draws struct{ source *rand.ChaCha8 }

// newDraws returns the chance of a trace, which depends on the seed and the trace's number alone.
func newDraws(seed, trace uint64) *draws {
	var key [32]byte
	copy(key[:], "agentx synth 1")
	binary.LittleEndian.PutUint64(key[16:], seed)
	binary.LittleEndian.PutUint64(key[24:], trace)
	return &draws{rand.NewChaCha8(key)}
}

// share returns a number from 0 to below 1.
func (d *draws) share() float64 { return float64(d.source.Uint64()>>11) * 0x1p-53 }

// chance reports true with a probability.
func (d *draws) chance(p float64) bool { return d.share() < p }

// below returns a whole number from 0 to below n.
func (d *draws) below(n int) int { return min(int(d.share()*float64(n)), n-1) }

// near returns a factor from 0.8 to below 1.2.
func (d *draws) near() float64 { return 0.8 + float64(0.4*d.share()) }

// number draws from a distribution.
func (d *draws) number(c *curve) float64 { return c.at(d.share()) }

// whole draws a whole number from a distribution.
func (d *draws) whole(c *curve) int { return rounded(d.number(c)) }

// one draws an element of a list by its share.
func one[T any](d *draws, list []weighted[T]) T {
	rest := d.share()
	for _, e := range list {
		if rest -= e.share; rest < 0 {
			return e.value
		}
	}
	return list[len(list)-1].value
}

// weighted is a value and which share of draws gives it. Shares of a list add up to 1.
type weighted[T any] struct {
	value T
	share float64
}

func rounded(x float64) int { return int(math.Floor(x + 0.5)) }

// curve is a distribution: the values at ascending shares, from 0 to 1. Between two of the points values grow by equal factors, as those
// of long tails do.
type curve struct {
	points []quantile
	bend   sync.Once
	bent   []quantile // with straight lines between them
}

// quantile says below which value a share of all values lies.
type quantile struct{ share, value float64 }

// bendPoints halves each stretch at its geometric mean, three times.
func (c *curve) bendPoints() {
	c.bent = c.points
	for range 3 {
		finer := []quantile{c.bent[0]}
		for k := 1; k < len(c.bent); k++ {
			lo, hi := c.bent[k-1], c.bent[k]
			middle := (lo.value + hi.value) / 2
			if lo.value > 0 {
				middle = math.Sqrt(lo.value * hi.value)
			}
			finer = append(finer, quantile{(lo.share + hi.share) / 2, middle}, hi)
		}
		c.bent = finer
	}
}

// at returns the value below which a share of all values lies.
func (c *curve) at(share float64) float64 {
	c.bend.Do(c.bendPoints)
	list := c.bent
	k := sort.Search(len(list)-1, func(k int) bool { return list[k+1].share > share })
	k = min(k, len(list)-2)
	lo, hi := list[k], list[k+1]
	return lo.value + float64((hi.value-lo.value)*((share-lo.share)/(hi.share-lo.share)))
}

// Distributions of the public v8 corpus of kv-cache-tester (commit c9b3da5, licence Apache-2.0). Lengths are in tokens, or in
// blocks of 64 where that is said; times are in seconds. The smallest and largest values are those seen.

const blockSize = 64

// Requests of a trace. Those that begin with a long prompt are short.
var (
	longPrompt    = 120_000 // from here on, a first prompt is long
	requests      = &curve{points: []quantile{{0, 3}, {0.05, 7}, {0.1, 12}, {0.25, 27}, {0.5, 58}, {0.75, 105}, {0.9, 175}, {0.95, 240}, {0.99, 350}, {1, 561}}}
	requestsOfBig = &curve{points: []quantile{{0, 3}, {0.25, 5}, {0.5, 14}, {0.75, 34}, {0.9, 54}, {0.95, 90}, {1, 200}}}
)

// Prompts.
var (
	firstPrompt = &curve{points: []quantile{{0, 6343}, {0.01, 10_244}, {0.05, 13_021}, {0.1, 15_400}, {0.25, 18_574}, {0.5, 24_500}, {0.6, 57_000}, {0.75, 102_822}, {0.9, 258_855}, {0.95, 370_000}, {0.99, 716_145}, {1, 851_858}}}

	// longest is how long prompts of a trace may grow before a pull-back: the windows of its model, mostly of 200,000 tokens.
	longest       = &curve{points: []quantile{{0, 80_000}, {0.1, 130_000}, {0.25, 152_000}, {0.5, 165_000}, {0.65, 190_000}, {0.78, 270_000}, {0.9, 450_000}, {0.97, 620_000}, {1, 890_000}}}
	longestAtMost = 894_371

	toolPrefix   = &curve{points: []quantile{{0, 7401}, {0.1, 9292}, {0.25, 10_641}, {0.5, 12_262}, {0.9, 12_974}, {1, 17_261}}}
	systemPrefix = &curve{points: []quantile{{0, 498}, {0.1, 2044}, {0.5, 2770}, {0.9, 3732}, {1, 7462}}}
)

// change is how a prompt follows from the one before it on its lane.
type change uint8

const (
	appended change = iota
	lastChanged
	tailEdited // by less than a tenth
	pulledBack // by more
	begunAnew  // no common prefix
	repeated
)

// changes are the 48,561 transitions. Pull-backs that come of prompts which have grown too long are besides.
var changes = []weighted[change]{
	{appended, 0.9431}, {lastChanged, 0.0406}, {tailEdited, 0.0092}, {pulledBack, 0.0052}, {begunAnew, 0.0017}, {repeated, 0.0002},
}

// Parts of prompts that change, in blocks.
var (
	newBlocks    = &curve{points: []quantile{{0, 1}, {0.01, 2}, {0.1, 3}, {0.25, 5}, {0.5, 10}, {0.75, 24}, {0.9, 55}, {0.95, 94}, {0.99, 245}, {0.999, 943}, {1, 3673}}}
	editedBlocks = &curve{points: []quantile{{0, 2}, {0.75, 3}, {0.9, 8}, {0.95, 21}, {1, 231}}}
	afterEdit    = &curve{points: []quantile{{0, 3}, {0.25, 5}, {0.5, 6}, {0.75, 17}, {0.9, 58}, {1, 876}}}
	kept         = &curve{points: []quantile{{0, 0.004}, {0.05, 0.039}, {0.25, 0.081}, {0.5, 0.111}, {0.75, 0.212}, {0.9, 0.412}, {0.99, 0.733}, {1, 0.893}}} // of a prompt that is pulled back
	afterPull    = &curve{points: []quantile{{0, 8}, {0.05, 135}, {0.1, 228}, {0.25, 388}, {0.5, 970}, {0.75, 1707}, {0.9, 3394}, {0.99, 6805}, {1, 9063}}}
	anew         = &curve{points: []quantile{{0, 0.071}, {0.1, 0.263}, {0.25, 0.5}, {0.5, 1.195}, {0.75, 2.742}, {0.9, 4.78}, {1, 8}}} // length against the prompt before
	otherModel   = 0.41                                                                                                                // share of prompts begun anew for another model
)

// Completions and times. A completion takes a second or two and then some time for each token.
var (
	completion = &curve{points: []quantile{{0, 0}, {0.0006, 1}, {0.01, 58}, {0.1, 105}, {0.25, 137}, {0.5, 216}, {0.75, 430}, {0.9, 898}, {0.95, 1580}, {0.99, 3687}, {0.999, 8262}, {1, 18_195}}}
	firstToken = &curve{points: []quantile{{0, 0.45}, {0.1, 1.61}, {0.5, 2.51}, {0.75, 3.5}, {0.9, 6.59}, {0.99, 19.56}, {1, 59.46}}}

	answerBase  = 2.1
	answerToken = 0.0158
	answerPace  = &curve{points: []quantile{{0, 0.55}, {0.05, 0.72}, {0.25, 0.87}, {0.5, 1}, {0.75, 1.18}, {0.95, 1.55}, {0.99, 2}, {0.999, 5}, {1, 20}}}
	answerMost  = 300.03

	thinkAfterTools = &curve{points: []quantile{{0, 0.1}, {0.01, 2.33}, {0.1, 3.93}, {0.25, 5.28}, {0.5, 8.52}, {0.75, 18.98}, {0.9, 68.4}, {0.95, 149.57}, {0.99, 610.25}, {0.999, 3101}, {1, 12_000}}}
	thinkAfterTurn  = &curve{points: []quantile{{0, 0.5}, {0.01, 2.29}, {0.1, 5.59}, {0.25, 58.6}, {0.5, 211}, {0.75, 930}, {0.9, 3004}, {0.95, 7858}, {0.99, 39_529}, {1, 77_590}}}
	thinkUnknown    = &curve{points: []quantile{{0, 0.5}, {0.1, 4}, {0.5, 10}, {0.75, 23}, {0.9, 70}, {0.99, 700}, {1, 20_000}}}
)

// Words. Models have names that no vendor has.
var (
	streamed     = 0.172                                                                                                    // share of traces
	unknownStop  = 0.51                                                                                                     // of the requests of these; they have no output types either
	turnEnds     = &curve{points: []quantile{{0, 0.001}, {0.3, 0.004}, {0.5, 0.014}, {0.75, 0.075}, {0.9, 0.18}, {1, 0.4}}} // share of the other requests of a trace that call no tools
	models       = []weighted[string]{{"synth-large-3", 0.472}, {"synth-medium-3", 0.211}, {"synth-large-4", 0.18}, {"synth-medium-2", 0.106}, {"synth-small-3", 0.016}, {"synth-large-2", 0.015}}
	smallModel   = "synth-small-3"
	toolOutput   = []weighted[[]string]{{[]string{"text", "tool_use"}, 0.323}, {[]string{"thinking", "tool_use"}, 0.247}, {[]string{"tool_use"}, 0.237}, {[]string{"text", "thinking", "tool_use"}, 0.193}}
	turnOutput   = []weighted[[]string]{{[]string{"text"}, 0.866}, {[]string{"text", "thinking"}, 0.134}}
	afterTools   = []weighted[[]string]{{[]string{"tool_result"}, 0.984}, {[]string{"text", "thinking", "tool_result", "tool_use"}, 0.009}, {[]string{"text", "tool_result", "tool_use"}, 0.007}}
	inputOfUsers = []string{"text"}
)

// Subagents: 63 in 17 of 710 traces.
var (
	withSubagents  = 17.0 / 710
	subagents      = &curve{points: []quantile{{0, 1}, {0.3, 2}, {0.6, 3}, {0.9, 8}, {1, 12}}}
	groups         = []weighted[int]{{1, 0.4}, {2, 0.35}, {3, 0.25}} // how many begin together
	inBackground   = 4.0 / 63
	subagentTypes  = []weighted[string]{{"Explore", 55.0 / 63}, {"general-purpose", 6.0 / 63}, {"Plan", 2.0 / 63}}
	sharedByTypes  = 63 // blocks that prompts of all subagents of a trace begin with
	childRequests  = &curve{points: []quantile{{0, 2}, {0.1, 4.5}, {0.5, 10.5}, {0.9, 16}, {1, 24}}}
	childTools     = &curve{points: []quantile{{0, 7401}, {0.6, 7771}, {1, 8620}}}
	childSystem    = &curve{points: []quantile{{0, 730}, {0.5, 947}, {1, 2304}}}
	childTask      = &curve{points: []quantile{{0, 300}, {0.5, 1900}, {0.9, 3300}, {1, 8400}}}
	childNewBlocks = &curve{points: []quantile{{0, 2}, {0.1, 10}, {0.25, 30}, {0.5, 65}, {0.75, 120}, {0.9, 200}, {1, 700}}}
	childThink     = &curve{points: []quantile{{0, 0.1}, {0.5, 2.5}, {0.9, 8}, {1, 60}}}
	childStart     = &curve{points: []quantile{{0, 0.05}, {1, 1.1}}} // after the answer that asks for it, and so its join
)
