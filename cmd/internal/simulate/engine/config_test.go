package engine

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestConfigsAreReadOverABase(t *testing.T) {
	c, err := Parse([]byte(`{}`), Default())
	require.NoError(t, err)
	require.Equal(t, Default(), c)
	require.NoError(t, c.Validate())
	base := Default()
	base.MaxSeqs = 7
	c, err = Parse([]byte(`{"block_size":0,"num_gpu_blocks":10,"timing":{"table":"t.npz"},"preemption_mode":"fifo","max_model_len":null}`), base)
	require.NoError(t, err)
	require.Equal(t, []any{64, 10, 7, fifo, Source{Table: "t.npz"}}, []any{c.BlockSize, c.Blocks, c.MaxSeqs, c.PreemptionMode, c.Timing})
	data, err := json.Marshal(c)
	require.NoError(t, err)
	again, err := Parse(data, Default())
	require.NoError(t, err)
	require.Equal(t, c, again)
	c.Timing = Source{Formula: formula}
	data, err = json.Marshal(c)
	require.NoError(t, err)
	again, err = Parse(data, Default())
	require.NoError(t, err)
	require.Equal(t, c, again)
}

func TestConfigsThatCannotBeUsed(t *testing.T) {
	for text, want := range map[string]string{
		`{"num_gpu_block":1}`:                   `engine: unknown key "num_gpu_block"; did you mean "num_gpu_blocks"?`,
		`{"zzz":1}`:                             `engine: unknown key "zzz"; the keys are engine_type, `,
		`[]`:                                    `engine: want a JSON object, not []`,
		`{"block_size":1,"block_size":2}`:       `engine: block_size: twice`,
		`{"block_size":"x"}`:                    `engine: block_size: want a whole number, not a text`,
		`{"timing":"fast"}`:                     `timing "fast": want "poly", {"table": FILE} or {"formula": {...}}`,
		`{"timing":{"table":"t","formula":{}}}`: `want "poly", {"table": FILE} or {"formula": {...}}`,
		`{"timing":{"formula":{"pass":1}}}`:     `want "poly", {"table": FILE} or {"formula": {...}}`,
		`{"timing":{"tabel":"t"}}`:              `want "poly", {"table": FILE} or {"formula": {...}}`,
	} {
		_, err := Parse([]byte(text), Default())
		require.ErrorContains(t, err, want, text)
	}
	for want, change := range map[string]func(*Config){
		`engine: max_num_batched_tokens 63: engine_type sglang computes whole blocks: want at least block_size 64`: func(c *Config) { c.Type, c.MaxBatchedTokens = SGLang, 63 },
		`engine: engine_type "vlm": want vllm or trtllm or sglang`:                                                 func(c *Config) { c.Type = "vlm" },
		`engine: preemption_mode "": want lifo or fifo`:                                                            func(c *Config) { c.PreemptionMode = "" },
		`engine: num_gpu_blocks 0: want 1 to 1073741824`:                                                           func(c *Config) { c.Blocks = 0 },
		`engine: block_size -1: want 1 to 1073741824`:                                                              func(c *Config) { c.BlockSize = -1 },
		`engine: speedup_ratio NaN: want a number from -1e+15 to 1e+15`:                                            func(c *Config) { c.SpeedupRatio = math.NaN() },
		`engine: startup_time -1: want a number from 0 to 1e+07`:                                                   func(c *Config) { c.StartupTime = -1 },
		`engine: timing: token_ms -1: want a finite number of at least 0`:                                          func(c *Config) { c.Timing.Formula = &Formula{Token: -1} },
		`engine: kv_transfer_timing "": want full_prompt or destination_missing`:                                   func(c *Config) { c.KVTransferTiming = "" },
	} {
		c := Default()
		change(&c)
		require.EqualError(t, c.Validate(), want)
	}
	c := Default()
	c.Type, c.Blocks, c.MaxSeqs, c.StartupTime = "vlm", 0, 0, -1
	require.Equal(t, 4, strings.Count(c.Validate().Error()+"\n", "\n"), "everything that is wrong is told")
	_, err := Parse([]byte(`{"block":1,"max_num_seq":2}`), Default())
	require.EqualError(t, err, `engine: unknown key "block"; did you mean "block_size"?`+"\n"+`engine: unknown key "max_num_seq"; did you mean "max_num_seqs"?`)
}
