package engine

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/agentx/agentx/internal/jsonobject"
)

// Config is the configuration of an engine: doc/spec/simulate.md 2. Default returns the one of keys that the user leaves out.
type Config struct {
	Type               string  `json:"engine_type"`
	Blocks             int     `json:"num_gpu_blocks"` // the pool
	BlockSize          int     `json:"block_size"`     // tokens
	MaxSeqs            int     `json:"max_num_seqs"`
	MaxBatchedTokens   int     `json:"max_num_batched_tokens"` // budget of a pass
	PrefixCaching      bool    `json:"enable_prefix_caching"`
	ChunkedPrefill     bool    `json:"enable_chunked_prefill"`
	SpeedupRatio       float64 `json:"speedup_ratio"`
	DecodeSpeedupRatio float64 `json:"decode_speedup_ratio"`
	PreemptionMode     string  `json:"preemption_mode"`
	StartupTime        float64 `json:"startup_time"` // seconds, of an added worker
	KVBytesPerToken    float64 `json:"kv_bytes_per_token"`
	KVTransferGBPerS   float64 `json:"kv_transfer_gb_s"` // 10^9 bytes; 0: the hand-off takes no time
	KVTransferTiming   string  `json:"kv_transfer_timing"`
	MaxModelLen        int     `json:"max_model_len,omitempty"` // 0: none
	GPUsPerWorker      int     `json:"gpus_per_worker"`
	Timing             Source  `json:"timing"`
	Tiers              []Tier  `json:"kv_tiers,omitempty"` // below the pool, the fastest first
	Fit                *Fit    `json:"fit,omitempty"`      // nil: it was not fitted to a run
}

// Fit says to what an engine was fitted, and how far off it is.
type Fit struct {
	Requests      int                `json:"requests"`
	Disaggregated bool               `json:"disaggregated"` // the run tells of a fleet with prefill and decode workers
	Errors        map[string]float64 `json:"errors"`        // by figure, of trees to which it was not fitted: simulated/measured - 1
}

// Source says where durations come from. Its JSON is "poly", {"table": FILE} or {"formula": {...}}; without either they are the polynomials.
type Source struct {
	Table   string   `json:"table,omitempty"` // a file
	Formula *Formula `json:"formula,omitempty"`
}

// String says how far off the engine is.
func (f *Fit) String() string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(f.Errors)) {
		list = append(list, fmt.Sprintf("%s %+.1f %s", name, 100*f.Errors[name], ErrorUnit(name)))
	}
	return strings.Join(list, ", ")
}

// ErrorUnit returns the unit of the error of a figure: points, of a share.
func ErrorUnit(name string) string {
	if name == "hit_rate" {
		return "points"
	}
	return "%"
}

// The engine types, modes of preemption and timings of transfers.
const (
	VLLM               = "vllm"
	TRTLLM             = "trtllm"
	SGLang             = "sglang"
	lifo               = "lifo"
	fifo               = "fifo"
	fullPrompt         = "full_prompt"
	DestinationMissing = "destination_missing"
)

const defaultBlockSize = 64

// HandOff returns the nanoseconds in which the blocks of so many tokens move to another worker: doc/spec/simulate.md 7.3.
func (c Config) HandOff(tokens int) int64 {
	return moves(tokens, c.KVBytesPerToken, c.KVTransferGBPerS)
}

// moves returns the nanoseconds in which so many tokens of so many bytes pass a link; one of 0 GB/s takes no time.
func moves(tokens int, bytes, gbPerS float64) int64 {
	if gbPerS == 0 {
		return 0
	}
	return int64(min(math.RoundToEven(float64(tokens)*bytes/gbPerS), 1<<60))
}

// Default returns the default configuration of an engine.
func Default() Config {
	return Config{
		Type: VLLM, Blocks: 16384, BlockSize: defaultBlockSize, MaxSeqs: 256, MaxBatchedTokens: 8192,
		PrefixCaching: true, ChunkedPrefill: true, SpeedupRatio: 1, DecodeSpeedupRatio: 1, PreemptionMode: lifo,
		KVTransferTiming: fullPrompt, GPUsPerWorker: 1,
	}
}

// Parse returns base with the keys of a JSON object. It refuses keys that do not exist, with the nearest name, and does
// not validate the values.
func Parse(data []byte, base Config) (Config, error) {
	if err := jsonobject.Read("engine", data, &base, nil); err != nil {
		return base, err
	}
	if base.BlockSize == 0 {
		base.BlockSize = defaultBlockSize
	}
	return base, nil
}

// maxCount bounds every count, so that products of two fit an int64.
const maxCount = 1 << 30

// Bounds of times, so that sums of many fit an int64.
const (
	maxStartup = 1e7 // seconds
	maxHandOff = 1e8 // nanoseconds a token
)

// Validate returns an error about each key whose value cannot be used, joined.
func (c Config) Validate() error {
	k := jsonobject.Check{Of: "engine"}
	k.Word("engine_type", c.Type, VLLM, TRTLLM, SGLang)
	k.Word("preemption_mode", c.PreemptionMode, lifo, fifo)
	k.Word("kv_transfer_timing", c.KVTransferTiming, fullPrompt, DestinationMissing)
	k.Count("num_gpu_blocks", c.Blocks, 1, maxCount)
	k.Count("block_size", c.BlockSize, 1, maxCount)
	k.Count("max_num_seqs", c.MaxSeqs, 1, maxCount)
	k.Count("max_num_batched_tokens", c.MaxBatchedTokens, 1, maxCount)
	k.Count("max_model_len", c.MaxModelLen, 0, maxCount)
	k.Count("gpus_per_worker", c.GPUsPerWorker, 0, maxCount)
	if c.Type == SGLang && c.ChunkedPrefill && c.MaxBatchedTokens < c.BlockSize {
		k.Wrong("max_num_batched_tokens %d: engine_type %s computes whole blocks: want at least block_size %d", c.MaxBatchedTokens, SGLang, c.BlockSize)
	}
	number := func(key string, v, least, most float64) {
		k.Number(key, v, v >= least && v <= most, "a number from %g to %g", least, most)
	}
	number("speedup_ratio", c.SpeedupRatio, -1e15, 1e15) // at most 0 is no speed-up
	number("decode_speedup_ratio", c.DecodeSpeedupRatio, -1e15, 1e15)
	number("startup_time", c.StartupTime, 0, maxStartup)
	number("kv_bytes_per_token", c.KVBytesPerToken, 0, 1e15)
	number("kv_transfer_gb_s", c.KVTransferGBPerS, 0, 1e15)
	if perToken := c.HandOff(1); perToken > maxHandOff {
		k.Wrong("kv_bytes_per_token %g at kv_transfer_gb_s %g: a token moves in %.3g s, want at most %g s",
			c.KVBytesPerToken, c.KVTransferGBPerS, float64(perToken)/1e9, maxHandOff/1e9)
	}
	c.checkTiers(&k)
	if c.Timing.Formula != nil {
		if err := c.Timing.Formula.Validate(); err != nil {
			k.Wrong("%w", err)
		}
	}
	return k.Err()
}

// UnmarshalJSON reads the forms of a Source. It does not validate the constants of a formula.
func (s *Source) UnmarshalJSON(data []byte) error {
	const want = `want "poly", {"table": FILE} or {"formula": {...}}`
	var word string
	if json.Unmarshal(data, &word) == nil {
		if word != "poly" {
			return fmt.Errorf("timing %q: %s", word, want)
		}
		*s = Source{}
		return nil
	}
	type source Source
	var one source
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&one); err != nil || (one.Table == "") == (one.Formula == nil) {
		return fmt.Errorf("timing %.200s: %s", data, want)
	}
	*s = Source(one)
	return nil
}

// MarshalJSON writes what UnmarshalJSON reads.
func (s Source) MarshalJSON() ([]byte, error) {
	if s == (Source{}) {
		return json.Marshal("poly")
	}
	type source Source
	return json.Marshal(source(s))
}
