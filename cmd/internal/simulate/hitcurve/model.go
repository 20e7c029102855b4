package hitcurve

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// modelConfig is what a model's config.json says of its attention. A model of several inputs has that of its text in text_config.
type modelConfig struct {
	Layers   int          `json:"num_hidden_layers"`
	Heads    int          `json:"num_attention_heads"`
	KVHeads  int          `json:"num_key_value_heads"` // 0: as many as heads
	HeadDim  int          `json:"head_dim"`            // 0: hidden size / heads
	Hidden   int          `json:"hidden_size"`
	KVRank   int          `json:"kv_lora_rank"`     // latent attention keeps this and the rope dimensions for all heads
	RopeDim  int          `json:"qk_rope_head_dim"` // of latent attention
	DType    string       `json:"torch_dtype"`
	NewDType string       `json:"dtype"`
	Text     *modelConfig `json:"text_config"`
}

// maxModelNumber bounds each number of a config.json, so that products stay exact.
const maxModelNumber = 1 << 20

// BytesPerToken returns what a token costs in the KV cache of the model of a config.json, in its own number format, on all GPUs of
// a worker together. Each layer counts, be its attention to all tokens or to a window of them.
func BytesPerToken(config []byte) (int64, error) {
	var m modelConfig
	if err := json.Unmarshal(config, &m); err != nil {
		return 0, fmt.Errorf("not the config.json of a model: %w", err)
	}
	dtype := m.dtype()
	if m.Layers == 0 && m.Text != nil {
		m = *m.Text
		if own := m.dtype(); own != "" {
			dtype = own
		}
	}
	if m.KVHeads == 0 {
		m.KVHeads = m.Heads
	}
	if m.HeadDim == 0 && m.Heads > 0 {
		m.HeadDim = m.Hidden / m.Heads
	}
	width, err := m.width()
	if err != nil {
		return 0, err
	}
	size, known := map[string]int64{"": 2, "bfloat16": 2, "float16": 2, "float32": 4, "float8_e4m3fn": 1}[strings.TrimPrefix(dtype, "torch.")]
	if !known {
		return 0, fmt.Errorf("torch_dtype %q: want bfloat16, float16, float32 or float8_e4m3fn", dtype)
	}
	return int64(m.Layers) * width * size, nil
}

// dtype returns the number format, under the newer or the older of its two keys.
func (m *modelConfig) dtype() string {
	if m.NewDType != "" {
		return m.NewDType
	}
	return m.DType
}

// width returns the numbers that a token has in each layer.
func (m *modelConfig) width() (int64, error) {
	for name, n := range map[string]int{"num_hidden_layers": m.Layers, "num_key_value_heads": m.KVHeads, "head_dim": m.HeadDim, "kv_lora_rank": m.KVRank, "qk_rope_head_dim": m.RopeDim} {
		if n < 0 || n > maxModelNumber {
			return 0, fmt.Errorf("%s %d: want 0 to %d", name, n, maxModelNumber)
		}
	}
	switch {
	case m.Layers == 0:
		return 0, errors.New("no num_hidden_layers: add --kv-bytes-per-token instead")
	case m.KVRank > 0:
		return int64(m.KVRank + m.RopeDim), nil
	case m.KVHeads == 0 || m.HeadDim == 0:
		return 0, errors.New("neither num_key_value_heads and head_dim nor num_attention_heads and hidden_size: add --kv-bytes-per-token instead")
	}
	return 2 * int64(m.KVHeads) * int64(m.HeadDim), nil
}
