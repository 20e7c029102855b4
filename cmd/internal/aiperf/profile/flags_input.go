package profile

import "github.com/agentx/agentx/internal/scenario"

// inputFlags say what is played, and when its turns go.
var inputFlags = []flag{
	mapped("--input-file", func(*translation, given) {}).conflict("--public-dataset", "--hf-weka-dataset"), // chooseSource has read it
	mapped("--custom-dataset-type", func(*translation, given) {}).conflict("--public-dataset", "--hf-weka-dataset"),
	mapped("--public-dataset", func(*translation, given) {}),
	mapped("--hf-weka-dataset", func(*translation, given) {}),
	mapped("--num-dataset-entries --num-prompts", func(t *translation, g given) {
		if t.mooncake {
			t.note("%s: AIPerf plays all rows of a Mooncake file, and so does agentx", g.shown())
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

// publicDatasets are the names of public datasets that are recordings of agents, with their repositories.
func publicDatasets() map[string]string {
	repositories := map[string]string{}
	for _, c := range scenario.Corpora() {
		for _, name := range c.Names {
			repositories[name] = c.Repository
		}
	}
	return repositories
}
