// Package agentx_test holds what is true of the whole tree: which package may import which.
package agentx_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"sort"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/replay/preset"
)

const module = "github.com/agentx/agentx"

// imports is the house: what every package imports besides the standard library, its tests left out. Packages of ours
// by their folder, modules of others by their path, and unsafe. A new edge is a new line here, for a reader to see and to
// agree to; a line that nobody needs any more fails as well.
var imports = map[string][]string{
	// The tools: they know nothing of traces, caches or runs, and import one another alone.
	"internal/bytefmt":    {},
	"internal/demo":       {},
	"internal/durable":    {"golang.org/x/sys"},
	"internal/endpoint":   {},           // data
	"internal/fakehub":    {},           // for tests
	"internal/fixtures":   {"fixtures"}, // for tests
	"internal/foreign":    {"internal/lazyregexp"},
	"internal/guard":      {},
	"internal/heap":       {},
	"internal/jsonlex":    {},
	"internal/lazyregexp": {},
	"internal/lines":      {},
	"internal/media":      {},
	"internal/pyrand":     {"golang.org/x/sys"}, // which instructions the processor has
	"internal/regular":    {},
	"internal/scenario":   {},
	"internal/secrets":    {},
	"internal/splitmix":   {},
	"internal/suggest":    {},
	"internal/corpus":     {"internal/splitmix"},
	"internal/jsonobject": {"internal/suggest"},
	"internal/terminal":   {"internal/lazyregexp", "internal/bytefmt", "golang.org/x/sys"},
	"internal/tokenizer":  {"internal/heap", "internal/jsonlex", "github.com/klauspost/compress", "github.com/zeebo/xxh3", "golang.org/x/text"},
	"internal/cachetest":  {"convert", "convert/rules", "hfsource", "internal/demo", "internal/tokenizer", "mmapcache"}, // for tests

	// From rows to caches.
	"fixtures":        {},
	"hfsource/column": {}, // what a row of columns is: between hfsource, which has no idea of traces, and convert/weka
	"timeline":        {},
	"trace":           {}, // what every reader makes
	"hfsource/hub": {
		"internal/lazyregexp", "internal/durable", "internal/regular", "internal/suggest", "github.com/go-resty/resty/v2", "go.yaml.in/yaml/v3", "golang.org/x/sync",
		"golang.org/x/sys", "golang.org/x/text",
	},
	"hfsource/parquet": {
		"hfsource/column", "github.com/andybalholm/brotli", "github.com/google/flatbuffers", "github.com/klauspost/compress",
		"github.com/parquet-go/parquet-go", "github.com/pierrec/lz4/v4",
	},
	"manifest": {"internal/bytefmt"},
	"hfsource": {
		"hfsource/column", "hfsource/hub", "hfsource/parquet", "internal/durable", "internal/foreign", "github.com/alitto/pond/v2",
		"github.com/klauspost/compress", "github.com/zeebo/xxh3",
	},
	"internal/tokensource":        {"hfsource/hub", "internal/foreign", "internal/regular", "internal/suggest", "internal/tokenizer"},
	"mmapcache/internal/cachedir": {"internal/durable", "manifest"}, // reads directories of a cache that other machines may replace
	"mmapcache": {
		"internal/durable", "manifest", "mmapcache/internal/cachedir", "timeline", "github.com/apache/arrow-go/v18", "github.com/edsrzf/mmap-go",
		"github.com/google/flatbuffers", "unsafe",
	},
	"mmapcache/internal/cachedir/faultdisk": {"mmapcache/internal/cachedir"}, // for tests
	"convert/rules":                         {"mmapcache", "timeline", "trace"},
	"mmapcache/cachestore": {
		"internal/bytefmt", "internal/durable", "internal/terminal", "manifest", "mmapcache", "mmapcache/internal/cachedir", "golang.org/x/sync",
	},
	"convert/reconstruct":       {"convert/rules", "internal/heap", "internal/pyrand", "mmapcache", "timeline", "trace", "github.com/zeebo/xxh3"},          // from a trace of any format
	"convert/weka":              {"internal/lazyregexp", "convert/rules", "hfsource/column", "internal/foreign", "internal/jsonlex", "mmapcache", "trace"}, // to a trace
	"convert/loads":             {"internal/jsonlex", "trace"},                                                                                             // to traces, without text
	"convert/text":              {"internal/lazyregexp", "github.com/zeebo/xxh3"},                                                                          // values: no bytes of a format, no tokens
	"convert/text/aiperf":       {"convert/text", "convert/text/content"},
	"convert/text/claude":       {"convert/text", "convert/text/content", "convert/text/claude/rows", "convert/text/claude/links"},
	"convert/text/claude/links": {"convert/text", "convert/text/claude/rows", "github.com/zeebo/xxh3"},
	"convert/text/claude/rows":  {"convert/text", "convert/text/content", "github.com/zeebo/xxh3"},
	"convert/text/codex":        {"convert/text", "convert/text/content", "internal/jsonlex"},
	"convert/text/content":      {"convert/text", "internal/jsonlex", "internal/media"},
	"convert/text/messages":     {"convert/text", "convert/text/content", "github.com/zeebo/xxh3"},
	"convert/text/otel":         {"convert/text", "convert/text/content", "convert/text/otel/spans", "github.com/zeebo/xxh3"},
	"convert/text/otel/spans":   {"convert/text/content", "internal/jsonlex"},
	"convert/text/render":       {"convert/text", "convert/text/content", "mmapcache", "timeline", "github.com/zeebo/xxh3"},
	"convert": {
		"internal/lazyregexp", "convert/reconstruct", "convert/loads", "convert/rules", "convert/text", "convert/text/aiperf", "convert/text/claude", "convert/text/codex", "convert/text/content", "convert/text/messages",
		"convert/text/otel", "convert/text/render", "convert/weka", "hfsource", "hfsource/column", "hfsource/parquet", "internal/tokensource",
		"internal/bytefmt", "internal/corpus", "internal/durable", "internal/regular", "internal/suggest", "internal/terminal", "internal/tokenizer",
		"manifest", "mmapcache", "mmapcache/cachestore", "trace", "github.com/alitto/pond/v2",
	},

	// From caches to results.
	"replay/capacity":  {}, // plays nothing
	"replay/conductor": {},
	"replay/preset":    {"internal/lazyregexp"}, // conductor cannot name a switch
	"mock":             {"internal/endpoint", "internal/jsonlex", "github.com/zeebo/xxh3"},
	"replay/resume":    {"internal/pyrand", "replay/conductor", "replay/preset"},
	"replay/slo":       {"internal/suggest"},
	"replay/wire":      {"internal/endpoint", "internal/jsonlex", "internal/secrets", "replay/preset"},
	"replay/arrivals":  {"internal/pyrand", "replay/resume"},
	"replay/measure": {"internal/lazyregexp", // conductor for its counters, preset for the rules of numbers, wire for the categories of failures, terminal for words of a shell
		"internal/bytefmt", "internal/jsonlex", "internal/regular", "internal/terminal", "replay/capacity", "replay/conductor", "replay/preset", "replay/slo", "replay/wire",
	},
	"replay/meet": {"internal/lazyregexp", "replay/measure", "replay/preset"}, // no player
	"replay/scrape": {
		"internal/lines", "internal/regular", "internal/secrets", "replay/measure", "replay/preset", "github.com/prometheus/client_model", "github.com/prometheus/common",
	},
	"replay/merge":   {"replay/measure", "replay/scrape"}, // results alone: it plays nothing
	"replay/payload": {"internal/endpoint", "mmapcache", "replay/preset", "replay/wire"},
	"replay": {
		"internal/lazyregexp", "internal/durable", "internal/heap", "internal/pyrand", "internal/regular", "internal/suggest", "mmapcache", "replay/arrivals",
		"replay/conductor", "replay/measure", "replay/meet", "replay/merge", "replay/payload", "replay/preset", "replay/resume", "replay/scrape",
		"replay/slo", "replay/wire", "timeline", "github.com/google/uuid", "golang.org/x/sys",
	},
	"report": {"internal/heap", "internal/regular", "replay/measure", "replay/merge", "replay/preset", "replay/wire"},

	// The rooms of the command, which no other module can import.
	"cmd/internal/aiperf": {
		"internal/lazyregexp", "internal/durable", "internal/jsonlex", "internal/lines", "internal/regular", "replay/measure", "replay/scrape", "replay/wire", "report",
	},
	"cmd/internal/aiperf/inferencex": {"internal/jsonlex", "internal/lines", "internal/regular"}, // shares no code with what writes the files that it reads
	"cmd/internal/aiperf/profile": {"internal/lazyregexp", // command lines: of a replay it knows the flags, endpoints, and the names of presets and scenarios
		"convert", "hfsource/hub", "internal/tokensource", "internal/regular", "internal/scenario", "internal/suggest", "internal/terminal",
		"internal/tokenizer", "replay/payload", "replay/preset", "go.yaml.in/yaml/v3",
	},
	"cmd/internal/capture": {
		"cmd/internal/capture/canon", "cmd/internal/capture/carry", "cmd/internal/capture/chain", "cmd/internal/capture/coding",
		"cmd/internal/capture/finish", "cmd/internal/capture/journal", "cmd/internal/capture/reply", "internal/guard",
		"github.com/prometheus/client_golang", "golang.org/x/net",
	},
	"cmd/internal/capture/canon":  {"cmd/internal/capture/journal", "internal/endpoint", "internal/jsonlex", "internal/media"}, // pure: no session, no tokenizer; of journals it has the words
	"cmd/internal/capture/carry":  {"internal/endpoint"},                                                                       // which is data: it carries while everything of ours is stuck
	"cmd/internal/capture/chain":  {"cmd/internal/capture/canon", "cmd/internal/capture/journal", "github.com/zeebo/xxh3"},
	"cmd/internal/capture/coding": {"github.com/andybalholm/brotli", "github.com/klauspost/compress"},
	"cmd/internal/capture/finish": {
		"cmd/internal/capture/journal", "convert/reconstruct", "convert/rules", "convert/weka", "internal/durable", "internal/regular", "trace",
		"golang.org/x/sync",
	},
	"cmd/internal/capture/imports": { // an import is a capture that is over already
		"cmd/internal/capture/canon", "cmd/internal/capture/chain", "cmd/internal/capture/finish", "cmd/internal/capture/journal", "convert/text",
		"convert/text/content", "golang.org/x/sync",
	},
	"cmd/internal/capture/journal": {"internal/lazyregexp", "internal/durable"},
	"cmd/internal/capture/reply":   {"cmd/internal/capture/canon", "cmd/internal/capture/coding", "cmd/internal/capture/journal", "internal/jsonlex"},
	"cmd/internal/inspect":         {"internal/bytefmt", "internal/terminal", "mmapcache", "replay/measure", "replay/payload"},
	"cmd/internal/report/compare": {
		"cmd/internal/aiperf", "cmd/internal/report/frontier", "cmd/internal/report/interval", "cmd/internal/report/page", "internal/durable",
		"replay/capacity", "replay/measure", "replay/merge", "replay/slo", "report",
	},
	"cmd/internal/report/export": {
		"cmd/internal/aiperf", "cmd/internal/aiperf/inferencex", "cmd/internal/report/gate", "cmd/internal/report/html", "cmd/internal/report/parquet",
		"replay/merge", "replay/slo", "report",
	},
	"cmd/internal/report/frontier": {"replay/measure"},
	"cmd/internal/report/gate": {
		"cmd/internal/aiperf", "cmd/internal/aiperf/inferencex", "cmd/internal/report/compare", "cmd/internal/report/interval", "replay/measure",
		"replay/merge", "replay/slo", "report",
	},
	"cmd/internal/report/html": {
		"cmd/internal/report/interval", "cmd/internal/report/page", "internal/durable", "internal/regular", "internal/splitmix", "replay/measure",
		"replay/scrape", "replay/slo", "report",
	},
	"cmd/internal/report/index": {
		"cmd/internal/report/compare", "cmd/internal/report/html", "cmd/internal/report/page", "internal/regular", "replay", "replay/measure",
		"replay/merge", "replay/slo", "report",
	},
	"cmd/internal/report/interval": {"internal/pyrand", "internal/regular", "replay/measure", "replay/slo"},
	"cmd/internal/report/live": {
		"cmd/internal/report/html", "cmd/internal/report/page", "internal/bytefmt", "internal/guard", "replay/measure", "replay/scrape", "replay/slo",
		"replay/wire", "report", "github.com/prometheus/client_model", "github.com/prometheus/common",
	},
	"cmd/internal/report/markdown": {"cmd/internal/report/compare", "cmd/internal/report/gate", "replay/measure", "replay/slo"},
	"cmd/internal/report/otlp":     {"replay/measure", "github.com/prometheus/client_model"},
	"cmd/internal/report/page":     {}, // tables of numbers; what they mean is for who calls it
	"cmd/internal/report/page/pagetest": { // for tests
		"github.com/chromedp/cdproto", "github.com/chromedp/chromedp", "github.com/dop251/goja", "github.com/stretchr/testify",
	},
	"cmd/internal/report/parquet": {
		"internal/durable", "replay/measure", "report", "github.com/klauspost/compress", "github.com/parquet-go/parquet-go",
	},
	"cmd/internal/report/until": {"cmd/internal/report/interval", "replay/measure", "replay/slo"},
	"cmd/internal/search":       {"replay", "replay/capacity", "replay/measure", "replay/slo"},
	"cmd/internal/settings": {"internal/lazyregexp", // flags, files and the environment of a replay and a simulation
		"internal/suggest", "replay", "replay/arrivals", "replay/measure", "replay/payload", "replay/preset", "replay/resume", "replay/wire", "github.com/spf13/cobra",
		"github.com/spf13/pflag", "go.yaml.in/yaml/v3",
	},
	"cmd/internal/simulate": {
		"cmd/internal/simulate/engine", "cmd/internal/simulate/fit", "cmd/internal/simulate/fleet", "cmd/internal/simulate/hitcurve", "cmd/internal/simulate/planner",
		"cmd/internal/simulate/preset", "cmd/internal/simulate/router", "cmd/internal/simulate/workload", "internal/durable", "internal/suggest",
		"internal/terminal", "mmapcache", "replay", "replay/measure", "replay/slo",
	},
	"cmd/internal/simulate/engine": {"internal/lazyregexp", "cmd/internal/simulate/preset", "internal/heap", "internal/jsonobject", "internal/regular"},
	"cmd/internal/simulate/fit": { // reads the results of a run
		"cmd/internal/simulate/engine", "cmd/internal/simulate/fleet", "cmd/internal/simulate/preset", "cmd/internal/simulate/workload",
		"internal/heap", "mmapcache", "replay/measure", "replay/merge", "replay/scrape",
	},
	"cmd/internal/simulate/fleet": {"cmd/internal/simulate/engine", "cmd/internal/simulate/preset", "cmd/internal/simulate/workload", "internal/heap"},
	"cmd/internal/simulate/hitcurve": {
		"cmd/internal/simulate/engine", "cmd/internal/simulate/fleet", "cmd/internal/simulate/preset", "cmd/internal/simulate/workload", "internal/heap",
	},
	"cmd/internal/simulate/hitcurve/chart": {
		"cmd/internal/report/page", "cmd/internal/simulate", "cmd/internal/simulate/hitcurve", "internal/bytefmt", "internal/durable", "replay/measure",
		"replay/slo",
	},
	"cmd/internal/simulate/page": {
		"cmd/internal/report/page", "cmd/internal/simulate", "cmd/internal/simulate/fit", "cmd/internal/simulate/fleet", "cmd/internal/simulate/planner",
		"cmd/internal/simulate/preset", "replay/measure",
	},
	"cmd/internal/simulate/planner": {"cmd/internal/simulate/engine", "cmd/internal/simulate/preset", "internal/jsonobject"},
	"cmd/internal/simulate/preset":  {},
	"cmd/internal/simulate/router": {
		"cmd/internal/simulate/engine", "cmd/internal/simulate/fleet", "cmd/internal/simulate/preset", "internal/heap", "internal/jsonobject",
		"internal/pyrand",
	},
	"cmd/internal/simulate/runs": {
		"cmd/internal/report/frontier", "cmd/internal/report/page", "cmd/internal/simulate", "cmd/internal/simulate/fit", "cmd/internal/simulate/fleet", "cmd/internal/simulate/page",
		"cmd/internal/simulate/planner", "cmd/internal/simulate/preset", "internal/bytefmt", "internal/durable", "internal/terminal", "replay/measure",
		"replay/slo",
	},
	"cmd/internal/simulate/setup": { // of a command line
		"cmd/internal/settings", "cmd/internal/simulate", "cmd/internal/simulate/engine", "cmd/internal/simulate/fit", "cmd/internal/simulate/hitcurve",
		"internal/durable", "replay/measure", "replay/merge", "cmd/internal/simulate/hitcurve/chart", "cmd/internal/simulate/planner", "cmd/internal/simulate/preset", "cmd/internal/simulate/router",
		"cmd/internal/simulate/runs", "cmd/internal/simulate/workload", "internal/jsonobject", "internal/regular", "internal/suggest",
		"internal/terminal", "trace", "github.com/spf13/pflag", "go.yaml.in/yaml/v3",
	},
	"cmd/internal/simulate/workload": { // trees are played by the player that drives servers
		"cmd/internal/simulate/engine", "cmd/internal/simulate/preset", "internal/heap", "internal/pyrand", "mmapcache", "replay", "replay/conductor",
	},
	"cmd/internal/export": {"convert/weka", "mmapcache", "trace"},
	"cmd/internal/synth":  {"internal/lazyregexp", "convert/weka", "mmapcache", "trace"},

	// The command.
	"cmd/agentx": {
		"cmd/internal/aiperf", "cmd/internal/aiperf/inferencex", "cmd/internal/aiperf/profile", "cmd/internal/capture", "cmd/internal/capture/carry",
		"cmd/internal/capture/finish", "cmd/internal/capture/journal", "cmd/internal/capture/imports", "cmd/internal/export", "cmd/internal/inspect", "cmd/internal/report/compare",
		"cmd/internal/report/export", "cmd/internal/report/gate", "cmd/internal/report/index", "cmd/internal/report/live", "cmd/internal/report/markdown", "cmd/internal/report/otlp",
		"cmd/internal/report/until", "cmd/internal/search", "cmd/internal/settings", "cmd/internal/simulate", "cmd/internal/simulate/setup",
		"cmd/internal/synth", "convert", "convert/rules", "convert/text", "convert/weka", "hfsource", "hfsource/hub", "internal/tokensource", "internal/bytefmt",
		"internal/demo", "internal/durable", "internal/guard", "internal/regular", "internal/scenario", "internal/suggest", "internal/terminal", "internal/tokenizer",
		"manifest", "mmapcache", "mmapcache/cachestore", "mock", "replay", "replay/capacity", "replay/measure", "replay/meet", "replay/merge",
		"replay/payload", "replay/preset", "replay/slo", "replay/wire", "trace", "github.com/klauspost/compress", "github.com/spf13/cobra",
		"github.com/spf13/pflag", "github.com/vbauerster/mpb/v8", "golang.org/x/term",
	},
}

// never are ways that no chain of lines above may make: builder and player meet only on disk, formats know nobody who
// uses them, and what tests are held against reaches no program.
var never = [][2]string{
	{"replay", "convert"}, {"replay", "hfsource"}, {"convert", "replay"},
	{"mmapcache", "mmapcache/cachestore"}, {"replay", "mmapcache/cachestore"}, {"mmapcache/cachestore", "convert"}, {"mmapcache/cachestore", "replay"},
	{"mmapcache", "convert"}, {"mmapcache", "replay"}, {"mmapcache", "hfsource"},
	{"hfsource", "mmapcache"}, {"hfsource", "convert"},
	{"replay/conductor", "replay/preset"}, {"replay/conductor", "replay"}, // every switch is resolved before the conductor starts
	{"report", "convert"}, {"report", "mmapcache"}, {"replay", "report"},
	{"mock", "mmapcache"}, {"mock", "replay"},
	{"cmd/agentx", "fixtures"}, {"cmd/agentx", "internal/fixtures"}, {"cmd/agentx", "internal/cachetest"}, {"cmd/agentx", "internal/fakehub"}, {"cmd/agentx", "mmapcache/internal/cachedir/faultdisk"},
	{"cmd/agentx", "cmd/internal/report/page/pagetest"},
}

func TestImports(t *testing.T) {
	found := readImports(t)
	for folder, edges := range found {
		want, ok := imports[folder]
		require.True(t, ok, "%s is in no line of the table", folder)
		for _, edge := range edges {
			require.Contains(t, want, edge, "%s imports %s: that is a decision, which belongs into the table", folder, edge)
		}
		for _, edge := range want {
			require.Contains(t, edges, edge, "%s does not import %s any more: take it out of the table", folder, edge)
		}
	}
	for folder := range imports {
		require.Contains(t, found, folder, "there is no package %s any more: take it out of the table", folder)
	}
}

func TestWhatMustNeverMeet(t *testing.T) {
	for _, pair := range never {
		for from := range imports {
			if from != pair[0] && !strings.HasPrefix(from, pair[0]+"/") {
				continue
			}
			for _, to := range reachable(from) {
				require.False(t, to == pair[1] || strings.HasPrefix(to, pair[1]+"/"), "%s reaches %s", from, to)
			}
		}
	}
}

// commons are what a verb that could be a program of its own may import of ours.
var commons = []string{"mmapcache", "manifest", "trace", "cmd/internal/settings", "replay/measure", "replay/slo", "cmd/internal/report/page"}

// doors are such verbs, with what they need besides.
var doors = map[string][]string{
	"cmd/internal/simulate": {
		"replay", "replay/conductor", // trees are played by the player that drives servers, so that both send alike
		"cmd/internal/report/frontier",  // the rule of pages about which runs others dominate
		"replay/merge", "replay/scrape", // engines are fitted to the results of a replay
	},
	"cmd/internal/capture": {"convert/reconstruct", "convert/rules", "convert/text", "convert/text/content", "convert/weka"}, // a finished trace is checked by what converts it; logs become the same traces
}

// room names the room that a package is in: its first folder, and that below cmd/internal.
func room(folder string) string {
	if name, command := strings.CutPrefix(folder, "cmd/internal/"); command {
		name, _, _ = strings.Cut(name, "/")
		return "cmd/internal/" + name
	}
	name, _, _ := strings.Cut(folder, "/")
	return name
}

// Tools import tools alone. Helpers of tests import what they prepare, and a tokenizer may be fetched from the hub.
func TestToolsImportNothingAbove(t *testing.T) {
	for from, edges := range imports {
		if room(from) != "internal" || from == "internal/cachetest" || from == "internal/fixtures" || from == "internal/tokensource" {
			continue
		}
		for _, to := range edges {
			require.True(t, strings.Contains(to, ".") || room(to) == "internal", "%s imports %s", from, to)
		}
	}
}

// Nothing but the command imports what is below a door, and that imports little of ours.
func TestDoors(t *testing.T) {
	for from, edges := range imports {
		for _, to := range edges {
			if strings.Contains(to, ".") {
				continue // of another module
			}
			at, top := room(from), room(to)
			if besides, door := doors[at]; door && top != at && top != "internal" {
				require.Contains(t, slices.Concat(commons, besides), to, "%s imports %s", from, to)
			}
			if _, door := doors[top]; door && at != top {
				require.Equal(t, "cmd/agentx", from, "it imports %s", to)
			}
		}
	}
}

// The conductor imports nothing of ours, so that it cannot name the type of the switches, and its code names none of them:
// every switch is resolved before it starts.
//
// Covers T-44.
func TestConductorCannotNameASwitch(t *testing.T) {
	require.Empty(t, readImports(t)["replay/conductor"])
	switches := map[string]bool{"Switches": true}
	for i := range reflect.TypeFor[preset.Switches]().NumField() {
		switches[reflect.TypeFor[preset.Switches]().Field(i).Name] = true
	}
	require.Len(t, switches, 27)
	files, err := filepath.Glob("replay/conductor/*.go")
	require.NoError(t, err)
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		code, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		require.NoError(t, err)
		ast.Inspect(code, func(n ast.Node) bool {
			if name, ok := n.(*ast.Ident); ok {
				require.False(t, switches[name.Name], "%s names %s", file, name.Name)
			}
			return true
		})
	}
}

// The proxy that carries traffic imports nothing of ours but a list of endpoints, and of the standard library neither what parses, compresses or
// hashes nor what opens files: rule zero of captures holds because carrying cannot name what observes.
func TestCarryingCannotNameWhatObserves(t *testing.T) {
	require.Equal(t, []string{"internal/endpoint"}, readImports(t)["cmd/internal/capture/carry"])
	files, err := filepath.Glob("cmd/internal/capture/carry/*.go")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		code, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		require.NoError(t, err)
		for _, spec := range code.Imports {
			name, _ := strconv.Unquote(spec.Path.Value)
			first, _, _ := strings.Cut(name, "/")
			require.NotContains(t, []string{"os", "encoding", "compress", "hash", "reflect", "syscall"}, first, "%s imports %s", file, name)
		}
	}
}

// reachable lists what a package imports, and what that imports.
func reachable(from string) []string {
	var list []string
	for next := []string{from}; len(next) > 0; {
		folder := next[0]
		next = next[1:]
		for _, edge := range imports[folder] {
			if !slices.Contains(list, edge) {
				list, next = append(list, edge), append(next, edge)
			}
		}
	}
	return list
}

// readImports parses every Go file of the module that is no test, whatever system it is for.
func readImports(t *testing.T) map[string][]string {
	t.Helper()
	found := map[string][]string{}
	modules := requirements(t)
	require.NoError(t, filepath.WalkDir(".", func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			_, err := os.Stat(filepath.Join(file, "go.mod"))
			if file != "." && (err == nil || d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".")) {
				return fs.SkipDir
			}
			return nil
		}
		folder := path.Dir(filepath.ToSlash(file))
		if filepath.Ext(file) != ".go" || strings.HasSuffix(file, "_test.go") {
			return nil
		}
		source, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		edges := found[folder]
		for _, spec := range source.Imports {
			name, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			if edge := edgeOf(name, modules); edge != "" && !slices.Contains(edges, edge) {
				edges = append(edges, edge)
			}
		}
		sort.Strings(edges)
		found[folder] = edges
		return nil
	}))
	return found
}

// edgeOf names an import as the table does; "" for the standard library.
func edgeOf(name string, modules []string) string {
	if name == "unsafe" || name == "C" {
		return name
	}
	if rest, ours := strings.CutPrefix(name, module+"/"); ours {
		return rest
	}
	longest := ""
	for _, m := range modules {
		if (name == m || strings.HasPrefix(name, m+"/")) && len(m) > len(longest) {
			longest = m
		}
	}
	if longest == "" && strings.Contains(strings.Split(name, "/")[0], ".") {
		return name // of no module of go.mod
	}
	return longest
}

// requirements lists the modules of go.mod.
func requirements(t *testing.T) (modules []string) {
	t.Helper()
	data, err := os.ReadFile("go.mod")
	require.NoError(t, err)
	for line := range strings.Lines(string(data)) {
		if fields := strings.Fields(strings.TrimPrefix(strings.TrimSpace(line), "require ")); len(fields) >= 2 && strings.HasPrefix(fields[1], "v") {
			modules = append(modules, fields[0])
		}
	}
	require.NotEmpty(t, modules)
	return modules
}
