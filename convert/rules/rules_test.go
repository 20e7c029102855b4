package rules

import (
	"encoding/json"
	"math"
	"reflect"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/trace"
)

func TestValidateNamesTheFieldOfRules(t *testing.T) {
	for want, change := range map[string]func(*Rules){
		"": func(*Rules) {},
		`length_rule "banana": want one of repaired, upstream`: func(r *Rules) { r.LengthRule = "banana" },
		`cache_metric "": want one of legacy, causal`:          func(r *Rules) { r.CacheMetric = "" },
		`block_size -1: want 0 (as declared) to 1048576`:       func(r *Rules) { r.BlockSize = -1 },
		`block_size 1048577: want 0 (as declared) to 1048576`:  func(r *Rules) { r.BlockSize = trace.MaxBlockSize + 1 },
		`aux_isl_ratio NaN: want a number`:                     func(r *Rules) { r.AuxISLRatio = math.NaN() },
		`aux_max_requests -1: want 0 or more`:                  func(r *Rules) { r.AuxMaxRequests = -1 },
		`seam_min_overlap_ratio -0.5: want 0 or more`:          func(r *Rules) { r.SeamMinOverlap = -0.5 },
		`seam_max_gap_seconds +Inf: want a number`:             func(r *Rules) { r.SeamMaxGap = math.Inf(1) },
	} {
		for _, r := range []Rules{Default(), AIPerf()} {
			change(&r)
			if want == "" {
				assert.NoError(t, r.Validate())
			} else {
				assert.EqualError(t, r.Validate(), want)
			}
		}
	}
	for i := range reflect.TypeFor[Rules]().NumField() { // an empty word is no value
		r := Default()
		if f := reflect.ValueOf(&r).Elem().Field(i); f.Kind() == reflect.String {
			f.SetString("")
			name, optional := ruleName(reflect.TypeFor[Rules]().Field(i))
			if optional { // keys of other inputs do not have it
				assert.NoError(t, r.Validate())
				continue
			}
			assert.ErrorContains(t, r.Validate(), name+` "": want one of `)
		}
	}
}

func TestZeroRulesAreTheDefault(t *testing.T) {
	require.NoError(t, Rules{}.Validate())
	assert.Equal(t, Default(), Rules{}.WithDefaults())
	assert.Equal(t, AIPerf(), AIPerf().WithDefaults())
}

func TestSetChangesAFieldOrNothing(t *testing.T) {
	for _, c := range []struct{ name, value, want string }{
		{"length_rule", "upstream", ""},
		{"length_rule", "banana", "length_rule=banana: want one of repaired, upstream"},
		{"block_size", "-1", "block_size=-1: want 0 (as declared) to 1048576"},
		{"block_size", "x", "block_size=x: want a whole number"},
		{"aux_isl_ratio", "NaN", "aux_isl_ratio=NaN: want a number"},
		{"split_agents", "perhaps", "split_agents=perhaps: want true or false"},
		{"max_isl", "none", ""},
		{"max_isl", "5", ""},
		{"max_isl", "many", "max_isl=many: want a whole number"},
	} {
		r := Default()
		err := r.Set(c.name, c.value)
		if c.want == "" {
			assert.NoError(t, err)
			continue
		}
		assert.EqualError(t, err, c.want)
		assert.Equal(t, Default(), r)
	}
	r := Default()
	assert.ErrorContains(t, r.Set("length", "1"), "length: unknown option: choose from backend, aux_cross_model, ")
}

func TestValidateNamesTheFieldOfPlacement(t *testing.T) {
	for _, p := range []Placement{{}, {Backend: XXH3, Seed: -1}, {Backend: Exact, Seed: -1}, {Backend: SHA256MT}, {Backend: SHA256MT, Stream: SonnetStream}} {
		assert.NoError(t, p.Validate())
	}
	assert.EqualError(t, Placement{Backend: "md5"}.Validate(), `backend "md5": want exact, xxh3 or sha256-mt`)
	assert.EqualError(t, Placement{Stream: CodingStream}.Validate(), `stream "dataset.coding_content.corpus": want none with the back-end exact`)
	assert.EqualError(t, Placement{Backend: SHA256MT, Stream: "s"}.Validate(), `stream "s": want dataset.coding_content.corpus or dataset.prompt.corpus`)
}

// A key contains the placement as JSON, so an empty back-end has to be written as what it means.
func TestEmptyBackendHasTheKeyOfExact(t *testing.T) {
	empty, err := json.Marshal(Placement{Seed: 42})
	require.NoError(t, err)
	named, err := json.Marshal(Placement{Backend: Exact, Seed: 42})
	require.NoError(t, err)
	assert.Equal(t, `{"backend":"exact","seed":42,"stream":""}`, string(named))
	assert.Equal(t, string(named), string(empty))
}
