package profile

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/agentx/agentx/convert"
	"github.com/agentx/agentx/hfsource/hub"
	"github.com/agentx/agentx/internal/scenario"
	"github.com/agentx/agentx/internal/suggest"
	"github.com/agentx/agentx/internal/tokenizer"
	"github.com/agentx/agentx/internal/tokensource"
)

// inputFlags say what is played, and when its turns go.
var inputFlags = []flag{
	mapped("--input-file", func(*translation, given) {}).conflict("--public-dataset", "--hf-weka-dataset"), // chooseSource has read it
	mapped("--custom-dataset-type", func(*translation, given) {}).conflict("--public-dataset", "--hf-weka-dataset"),
	mapped("--public-dataset", func(*translation, given) {}),
	mapped("--hf-weka-dataset", func(*translation, given) {}),
	mapped("--num-dataset-entries --num-prompts", func(t *translation, g given) {
		if t.whole() {
			t.note("%s: AIPerf plays all of a file of %s, and so does agentx", g.shown(), t.kind.name)
		}
		t.limitTraces(g)
	}),
	mapped("--conversation-num --num-conversations --num-sessions", func(t *translation, g given) {
		t.count(g, "trees")
		if !t.has("--num-dataset-entries") && !t.presumed() {
			t.limitTraces(g)
		}
	}),
	mapped("--max-context-length", func(t *translation, g given) { t.count(g, "max-context") }),
	mappedSwitch("--ignore-trace-delays", whenOn("asap", true)).conflict("--use-think-time-only"),
	mappedSwitch("--use-think-time-only", whenOn("think-time-only", true)),
	mapped("--inter-turn-delay-cap-seconds", func(t *translation, g given) {
		if t.has("--trace-idle-gap-cap-seconds") && !t.has("--scenario") {
			t.note("%s: --trace-idle-gap-cap-seconds takes its place, as in AIPerf", g.shown())
			return
		}
		t.positiveSeconds(g, "max-gap") // without gaps: --ignore-trace-delays
	}),
	mapped("--trace-idle-gap-cap-seconds", func(t *translation, g given) { t.seconds(g, "trace-idle-cap") }),
	mapped("--system-idle-gap-cap-seconds", func(t *translation, g given) { t.seconds(g, "system-idle-cap") }),
	mapped("--dataset-sampling-strategy", func(t *translation, g given) {
		t.set("sampler-order", t.word(g, "sequential", "random", "shuffle"))
	}),
	mappedSwitch("--allow-dataset-wrap --no-allow-dataset-wrap", func(t *translation, g given) { t.set("allow-wrap", g.on()) }),
	mapped("--random-seed", func(t *translation, g given) { t.set("seed", g.value()) }),
	mapped("--tokenizer", (*translation).tokenizer),
	mapped("--prompt-corpus", func(t *translation, g given) {
		if t.word(g, "coding", "sonnet") == "sonnet" {
			t.add("not supported: %s: give agentx that text with AGENTX_CORPUS=aiperf-sonnet:FILE, the shakespeare.txt of AIPerf, and leave this flag out", g.shown())
		}
	}),
	mapped("--prompt-input-tokens-block-size --synthetic-input-tokens-block-size --isl-block-size", func(t *translation, g given) {
		t.note("%s: the size of the recorded blocks; prompts are not synthetic", g.name)
		t.set("set", "block_size="+g.value())
	}),
	ofLengths("--prompt-input-tokens-mean --synthetic-input-tokens-mean --isl"),
	ofLengths("--prompt-input-tokens-stddev --synthetic-input-tokens-stddev --isl-stddev"),
	ofLengths("--prompt-output-tokens-mean --output-tokens-mean --osl"),
	ofLengths("--prompt-output-tokens-stddev --output-tokens-stddev --osl-stddev"),
	ofLengths("--prompt-prefix-length --prefix-prompt-length"),
	ofLengths("--prompt-prefix-pool-size --prefix-prompt-pool-size --num-prefix-prompts"),
	mapped("--synthesis-max-isl", func(t *translation, g given) { t.set("set", "max_isl="+g.value()) }),
	mapped("--synthesis-max-osl", func(t *translation, g given) { t.set("set", "max_osl="+g.value()) }),
	mapped("--cache-bust", func(t *translation, g given) {
		if target := oneSpelling(g.value()); target == "none" {
			t.set("marker", "off")
		} else {
			t.set("marker", target)
		}
	}),
	mapped("--tokenizer-revision", (*translation).tokenizerRevision),
	meaningless("--tokenizer-trust-remote-code", noValue, "agentx runs no code of a repository"),
	meaningless("--apply-chat-template", noValue, "agentx reports the counts of the server, which have its chat template in them"),
}

// publicDatasets maps the names of public datasets that are recordings of agents to their repositories.
func publicDatasets() map[string]string {
	repositories := map[string]string{}
	for _, c := range scenario.Corpora() {
		for _, name := range c.Names {
			repositories[name] = c.Repository
		}
	}
	return repositories
}

// chooseSource finds the recording: a file or directory, a public dataset by name, or a repository of Weka traces.
func (t *translation) chooseSource() {
	file, public, repository := t.value("--input-file"), t.value("--public-dataset"), t.value("--hf-weka-dataset")
	weka := oneSpelling(public) == "weka_hf"
	switch {
	case repository != "" && (public == "" || weka):
		t.Data = t.atRevision(repository)
	case weka:
		t.add("--public-dataset %s: say which: --hf-weka-dataset OWNER/NAME", public)
	case repository != "":
		t.add("--hf-weka-dataset and --public-dataset %s both name a recording: leave one of them out", public)
	case public != "":
		t.Data = t.publicDataset(public)
	case file != "":
		t.Data = file
		if _, err := os.Stat(file); t.Harness && errors.Is(err, fs.ErrNotExist) {
			t.add("--input-file %s: there is no such file or directory", file)
		}
	case t.has("--prompt-input-tokens-mean"):
		t.Data = t.syntheticLoad()
	default:
		t.addProblem(Problem{errNoRecording, "--isl N --osl N for a load of lengths; or --input-file FILE, --public-dataset NAME or --hf-weka-dataset OWNER/NAME"})
	}
	t.chooseType(file)
}

// ofLengths returns a flag of the lengths of a load that is made up: syntheticLoad reads them.
func ofLengths(list string) flag {
	return mapped(list, func(t *translation, g given) {
		if !t.has("--prompt-input-tokens-mean") {
			t.add("%s: it is of a load of lengths: give --isl, too", g.shown())
		}
	}).conflict("--input-file", "--public-dataset", "--hf-weka-dataset")
}

// aiperfEntries is how many prompts AIPerf makes up where nothing else is said.
const aiperfEntries = "100"

// syntheticLoad describes the load of lengths that the flags ask for, as agentx synth makes it. AIPerf puts the prefix in front of the length.
func (t *translation) syntheticLoad() string {
	number := func(flag string) (float64, bool) {
		v, err := strconv.ParseFloat(t.value(flag), 64)
		if t.has(flag) && (err != nil || v < 0 || v != math.Trunc(v)) {
			t.add("%s %s: want a whole number of tokens", flag, t.value(flag))
		}
		return v, t.has(flag)
	}
	prefix, _ := number("--prompt-prefix-length")
	lengths := func(mean, deviation string, more float64) string {
		m, _ := number(mean)
		if sd, _ := number(deviation); sd > 0 {
			return fmt.Sprintf("normal:%g,%g", m+more, sd)
		}
		return fmt.Sprint(m + more)
	}
	if !t.has("--prompt-output-tokens-mean") {
		t.add("--osl: say how long answers are; without it AIPerf leaves that to the server")
	}
	load := "synth:isl=" + lengths("--prompt-input-tokens-mean", "--prompt-input-tokens-stddev", prefix) +
		",osl=" + lengths("--prompt-output-tokens-mean", "--prompt-output-tokens-stddev", 0) + ",traces=" + cmp.Or(t.value("--num-dataset-entries"), aiperfEntries)
	if pool, given := number("--prompt-prefix-pool-size"); prefix > 0 {
		load += fmt.Sprintf(",shared-prefix=%.0f", prefix)
		if given && pool > 0 {
			load += fmt.Sprintf(",groups=%.0f", pool)
		}
	}
	if seed := t.value("--random-seed"); seed != "" {
		load += ",seed=" + seed
	}
	t.note("prompts are agentx's own, of the lengths asked for, whose draws are not AIPerf's")
	return load
}

// publicDataset returns the repository of a public dataset. The name may have - for _, and -256-k at its end, as in AIPerf's help.
func (t *translation) publicDataset(name string) string {
	word := oneSpelling(name)
	if short, ok := strings.CutSuffix(word, "_256_k"); ok {
		word = short + "_256k"
	}
	repositories := publicDatasets()
	repository, known := repositories[word]
	if !known {
		list := slices.Sorted(maps.Keys(repositories))
		t.add("not supported: --public-dataset %s: no recording of agents has this name: %w", name, suggest.Wrong(word, suggest.Either(list), list))
		return ""
	}
	return t.atRevision(repository)
}

// atRevision returns the reference of a dataset, at the revision that AGENTX_DATASET_REVISION pins.
func (t *translation) atRevision(repository string) string {
	return hub.Ref{Repo: repository, Revision: t.Environ["AGENTX_DATASET_REVISION"]}.String()
}

// tokenizer passes on --tokenizer, at the revision of --tokenizer-revision. AGENTX_TOKENIZER overrides a tokenizer that is not inside agentx.
func (t *translation) tokenizer(g given) {
	name := g.value()
	switch instead := t.Environ["AGENTX_TOKENIZER"]; {
	case name == "builtin":
		t.set("tokenizer", "o200k_base")
		return
	case slices.Contains(tokenizer.Names(), name):
	case instead != "":
		t.note("%s: the prompts are made with %s, as AGENTX_TOKENIZER says: the server may count other lengths", g.shown(), instead)
		name = instead
	case tokensource.FromHub(name):
		name = t.tokenizerAtRevision(name)
	}
	if err := tokensource.Check(name); err != nil {
		t.add("--tokenizer %s: %w; in place of it AGENTX_TOKENIZER=%s in the environment of a script plays with that one", name, err, convert.DefaultTokenizer)
		return
	}
	t.set("tokenizer", name)
}

// tokenizerAtRevision returns the name of a model of the hub with the revision of --tokenizer-revision, which is main by default.
func (t *translation) tokenizerAtRevision(name string) string {
	if revision := t.value("--tokenizer-revision"); revision != "" && revision != "main" {
		return hub.Ref{Model: true, Repo: name, Revision: revision}.Name()
	}
	return name
}

// tokenizerRevision notes if --tokenizer-revision changes nothing. Otherwise tokenizer has passed it on.
func (t *translation) tokenizerRevision(g given) {
	if t.Environ["AGENTX_TOKENIZER"] != "" || !tokensource.FromHub(t.value("--tokenizer")) {
		t.note("%s: the tokenizer is not one of the hub", g.shown())
	}
}

// defaultTokenizer notes which tokenizer is used if none is given: AIPerf would take that of the model.
func (t *translation) defaultTokenizer() {
	if !t.has("--tokenizer") && t.has("--model-names") {
		t.note("no --tokenizer: the prompts are made with %s; AIPerf takes the tokenizer of the model", cmp.Or(t.Environ["AGENTX_TOKENIZER"], convert.DefaultTokenizer))
	}
}
