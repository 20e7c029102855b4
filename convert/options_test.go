package convert

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/convert/rules"
)

// Options with only root and inputs give the same dataset as options with all defaults spelled out.
func TestZeroOptionsMeanTheDefaults(t *testing.T) {
	input := lines(t, traceText("a"))
	zero, err := Convert(t.Context(), Options{Root: t.TempDir(), Inputs: []string{input}})
	require.NoError(t, err)
	o := Options{
		Root: t.TempDir(), Inputs: []string{input}, Rules: rules.Default(), Placement: rules.Placement{Backend: rules.Exact, Seed: 42},
		Tokenizer: "o200k_base", Corpus: "code", Workers: 1,
	}
	spelled, err := Convert(t.Context(), o)
	require.NoError(t, err)
	assert.Equal(t, zero.Key, spelled.Key)
	o.Placement.Backend = ""
	again, err := Convert(t.Context(), o)
	require.NoError(t, err)
	assert.True(t, again.Hit, "the default backend has one name in keys")
	o.Placement = rules.Placement{Backend: rules.Exact} // a seed of 0 that is meant
	other, err := Convert(t.Context(), o)
	require.NoError(t, err)
	assert.NotEqual(t, zero.Key, other.Key)
}

// A value that cannot be used is refused before anything is read or written, by every function that takes options.
func TestInvalidOptionsAreRefused(t *testing.T) {
	for want, change := range map[string]func(*Options){
		"root: empty":                                func(o *Options) { o.Root = "" },
		"inputs: none":                               func(o *Options) { o.Inputs = nil },
		"workers -1: want 0":                         func(o *Options) { o.Workers = -1 },
		"option Workers: -1: want 0":                 func(o *Options) { o.Source.Workers = -1 },
		"workers 2000: want 0":                       func(o *Options) { o.Workers = 2000 },
		`tokenizer x: want cl100k_base, o200k_base`:  func(o *Options) { o.Tokenizer = "x" },
		"corpus sonnet:x: not a file of token ids":   func(o *Options) { o.Corpus = "sonnet:x" },
		`corpus "aiperf-sonnet:" names no file`:      func(o *Options) { o.Corpus = "aiperf-sonnet:" },
		`length_rule "banana": want one of repaired`: func(o *Options) { o.Rules = rules.Default(); o.Rules.LengthRule = "banana" },
		`backend "xxh4": want exact, xxh3`:           func(o *Options) { o.Placement.Backend = "xxh4" },
	} {
		o := Options{Root: t.TempDir() + "/root", Inputs: []string{lines(t, traceText("a"))}}
		change(&o)
		assert.ErrorContains(t, o.Validate(), want)
		_, err := Convert(t.Context(), o)
		assert.ErrorContains(t, err, want)
		_, err = Explain(t.Context(), o)
		assert.ErrorContains(t, err, want)
		if o.Root != "" {
			assert.NoDirExists(t, o.Root)
		}
	}
}

func TestProfiles(t *testing.T) {
	for _, name := range Profiles() {
		o := Options{Root: "root", Inputs: []string{"in"}}
		require.NoError(t, o.SetProfile(name))
		assert.NoError(t, o.Validate())
	}
	var o Options
	require.ErrorContains(t, o.SetProfile("x"), "want default or aiperf")
}
