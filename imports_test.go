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
	"internal/durable":            {"golang.org/x/sys"},
	"internal/bytefmt":            {},
	"internal/endpoint":           {}, // data
	"internal/suggest":            {},
	"internal/heap":               {},
	"internal/jsonobject":         {"internal/suggest"},
	"internal/pyrand":             {},
	"internal/splitmix":           {},
	"internal/tokenizer":          {"github.com/klauspost/compress", "github.com/zeebo/xxh3", "golang.org/x/text", "internal/heap", "internal/jsonlex"},
	"internal/tokensource":        {"hfsource/hub", "internal/foreign", "internal/regular", "internal/suggest", "internal/tokenizer"},
	"internal/jsonlex":            {},
	"internal/mock":               {"internal/endpoint", "internal/jsonlex", "github.com/zeebo/xxh3"},
	"fixtures":                    {},
	"capture/canon":               {"capture/journal", "internal/endpoint", "internal/jsonlex"}, // pure: no session, no tokenizer; of journals it has the words
	"capture/chain":               {"capture/canon", "capture/journal", "github.com/zeebo/xxh3"},
	"manifest":                    {},
	"timeline":                    {},
	"internal/cachedir":           {"internal/durable", "manifest"}, // reads directories of a cache that other machines may replace
	"internal/cachedir/faultdisk": {"internal/cachedir"},            // for tests
	"mmapcache": {
		"internal/cachedir", "internal/durable", "manifest", "timeline",
		"github.com/apache/arrow-go/v18", "github.com/edsrzf/mmap-go", "github.com/google/flatbuffers", "unsafe",
	},
	"cachestore":      {"internal/bytefmt", "internal/cachedir", "internal/durable", "internal/terminal", "manifest", "mmapcache", "golang.org/x/sync"},
	"hfsource":        {"hfsource/column", "hfsource/hub", "hfsource/parquet", "internal/durable", "internal/foreign", "github.com/alitto/pond/v2", "github.com/klauspost/compress"},
	"hfsource/column": {}, // what a row of columns is: between hfsource, which has no idea of traces, and convert/weka
	"hfsource/hub": {
		"internal/durable", "internal/regular", "internal/suggest",
		"github.com/go-resty/resty/v2", "go.yaml.in/yaml/v3", "golang.org/x/sync", "golang.org/x/sys", "golang.org/x/text",
	},
	"hfsource/hub/fakehub": {}, // for tests
	"hfsource/parquet":     {"hfsource/column", "github.com/andybalholm/brotli", "github.com/google/flatbuffers", "github.com/klauspost/compress", "github.com/parquet-go/parquet-go", "github.com/pierrec/lz4/v4"},
	"convert/corpus":       {"internal/splitmix"},
	"convert/demo":         {},
	"trace":                {}, // what every reader makes
	"convert/rules":        {"mmapcache", "timeline", "trace"},
	"convert/weka":         {"convert/rules", "hfsource/column", "internal/foreign", "internal/jsonlex", "mmapcache", "trace"},               // to a trace
	"convert/reconstruct":  {"convert/rules", "internal/heap", "internal/pyrand", "mmapcache", "timeline", "trace", "github.com/zeebo/xxh3"}, // from a trace of any format
	"convert/synth":        {"convert/weka", "mmapcache", "trace"},
	"convert": {
		"cachestore", "convert/corpus", "convert/reconstruct", "convert/rules", "convert/weka", "hfsource", "hfsource/column", "hfsource/parquet", "internal/bytefmt", "internal/durable", "internal/regular", "internal/suggest", "internal/terminal", "internal/tokenizer", "internal/tokensource",
		"manifest", "mmapcache", "trace", "github.com/alitto/pond/v2",
	},
	"internal/cachetest": {"convert", "convert/demo", "convert/rules", "hfsource", "internal/tokenizer", "mmapcache"}, // for tests
	"replay/payload":     {"internal/endpoint", "mmapcache", "replay/preset", "replay/wire"},
	"replay/conductor":   {},
	"replay/resume":      {"internal/pyrand", "replay/conductor"},
	"replay/arrivals":    {"internal/pyrand", "replay/resume"},
	"replay/wire":        {"internal/endpoint", "internal/jsonlex", "internal/secrets"},
	"replay/capacity":    {}, // plays nothing
	"replay/search":      {"replay", "replay/capacity", "replay/measure", "replay/slo"},
	"replay/preset":      {}, // conductor cannot name a switch
	"replay/scenario":    {},
	"replay/slo":         {"internal/suggest"},
	"replay/meet":        {"replay/measure"},                                                                                                                                // no player
	"replay/measure":     {"internal/bytefmt", "internal/jsonlex", "internal/regular", "replay/capacity", "replay/conductor", "replay/preset", "replay/slo", "replay/wire"}, // conductor for its counters, preset for the rules of numbers, wire for the categories of failures
	"replay/merge":       {"replay/measure", "replay/scrape"},                                                                                                               // results alone: it plays nothing
	"replay": {
		"internal/durable", "internal/heap", "internal/pyrand", "internal/regular", "internal/suggest", "mmapcache", "replay/arrivals", "replay/conductor", "replay/measure", "replay/meet", "replay/merge", "replay/payload", "replay/preset", "replay/resume", "replay/scrape", "replay/slo", "replay/wire", "timeline",
		"github.com/google/uuid", "golang.org/x/sys",
	},
	"internal/foreign":  {},
	"internal/terminal": {"manifest", "golang.org/x/sys"},
	"inspect":           {"internal/bytefmt", "internal/terminal", "mmapcache", "replay/measure", "replay/payload"},
	"internal/settings": { // flags, files and the environment of a replay and a simulation
		"internal/suggest", "replay", "replay/arrivals", "replay/payload", "replay/preset", "replay/resume", "replay/wire",
		"github.com/spf13/cobra", "github.com/spf13/pflag", "go.yaml.in/yaml/v3",
	},
	"internal/lines":   {},
	"internal/regular": {},
	"internal/secrets": {},
	"internal/guard":   {},
	"report":           {"internal/heap", "internal/regular", "replay/measure", "replay/merge", "replay/preset", "replay/wire"},
	"report/interval":  {"internal/pyrand", "internal/regular", "replay/measure", "replay/slo"},
	"report/until":     {"replay/measure", "replay/slo", "report/interval"},
	"report/gate":      {"aiperf", "aiperf/inferencex", "replay/measure", "replay/merge", "replay/slo", "report", "report/compare", "report/interval"},
	"report/export":    {"aiperf", "aiperf/inferencex", "replay/merge", "replay/slo", "report", "report/gate", "report/html", "report/parquet"},
	"report/markdown":  {"replay/measure", "replay/slo", "report/compare", "report/gate"},
	"report/compare":   {"aiperf", "internal/durable", "replay/measure", "replay/merge", "replay/slo", "report", "report/frontier", "report/interval", "report/page"},
	"report/frontier":  {"replay/measure"},
	"report/html":      {"internal/durable", "internal/regular", "internal/splitmix", "replay/measure", "replay/scrape", "replay/slo", "report", "report/interval", "report/page"},
	"report/parquet":   {"internal/durable", "replay/measure", "report", "github.com/klauspost/compress", "github.com/parquet-go/parquet-go"},
	"replay/scrape":    {"internal/lines", "internal/regular", "internal/secrets", "replay/measure", "github.com/prometheus/client_model", "github.com/prometheus/common"},

	"report/live": {
		"internal/guard", "replay/measure", "replay/wire", "report", "report/html", "report/page",
		"github.com/prometheus/client_model", "github.com/prometheus/common",
	},
	"report/otlp": {"replay/measure", "github.com/prometheus/client_model"},
	"report/page": {}, // tables of numbers; what they mean is for who calls it
	"report/page/pagetest": { // for tests
		"github.com/chromedp/cdproto", "github.com/chromedp/chromedp", "github.com/dop251/goja", "github.com/stretchr/testify",
	},

	"simulate/preset":   {},
	"simulate/engine":   {"internal/jsonobject", "internal/regular", "simulate/preset"},
	"simulate/workload": {"internal/heap", "internal/pyrand", "mmapcache", "replay", "replay/conductor", "simulate/engine", "simulate/preset"}, // trees are played by the player that drives servers
	"simulate/fleet":    {"internal/heap", "simulate/engine", "simulate/preset", "simulate/workload"},
	"simulate/router":   {"internal/heap", "internal/jsonobject", "internal/pyrand", "simulate/engine", "simulate/fleet", "simulate/preset"},
	"simulate":          {"internal/durable", "internal/suggest", "internal/terminal", "mmapcache", "replay", "replay/measure", "replay/slo", "simulate/engine", "simulate/fleet", "simulate/hitcurve", "simulate/planner", "simulate/preset", "simulate/router", "simulate/workload"},
	"simulate/runs":     {"internal/bytefmt", "internal/durable", "internal/terminal", "replay/measure", "replay/slo", "report/frontier", "report/page", "simulate", "simulate/fleet", "simulate/page", "simulate/planner", "simulate/preset"},
	"simulate/hitcurve": {"internal/heap", "simulate/engine", "simulate/fleet", "simulate/preset", "simulate/workload"},
	"simulate/page":     {"report/page", "simulate", "simulate/fleet", "simulate/planner", "simulate/preset"},
	"simulate/planner":  {"internal/jsonobject", "simulate/engine", "simulate/preset"},
	"capture/journal":   {"internal/durable"},
	"capture":           {"capture/canon", "capture/carry", "capture/chain", "capture/coding", "capture/finish", "capture/journal", "capture/reply", "internal/guard", "github.com/prometheus/client_golang", "golang.org/x/net"},
	"capture/finish":    {"capture/journal", "convert/reconstruct", "convert/rules", "convert/weka", "internal/durable", "internal/regular", "trace", "golang.org/x/sync"},
	"capture/coding":    {"github.com/andybalholm/brotli", "github.com/klauspost/compress"},
	"capture/reply":     {"capture/canon", "capture/coding", "capture/journal", "internal/jsonlex"},
	"capture/carry":     {"internal/endpoint"}, // which is data: it carries while everything of ours is stuck

	"simulate/setup": { // of a command line
		"internal/jsonobject", "internal/regular", "internal/settings", "internal/suggest", "internal/terminal", "simulate", "simulate/engine", "simulate/hitcurve", "simulate/hitcurve/chart", "simulate/planner", "simulate/preset",
		"simulate/router", "simulate/runs", "simulate/workload", "trace", "github.com/spf13/pflag", "go.yaml.in/yaml/v3",
	},
	"simulate/hitcurve/chart": {"internal/bytefmt", "internal/durable", "replay/measure", "replay/slo", "report/page", "simulate", "simulate/hitcurve"},
	"aiperf":                  {"internal/durable", "internal/lines", "internal/regular", "internal/terminal", "replay/measure", "replay/scrape", "replay/wire", "report"},
	"aiperf/inferencex":       {"internal/lines", "internal/regular"}, // shares no code with what writes the files that it reads
	"aiperf/profile": { // command lines: of a replay it knows the flags, endpoints, and the names of presets and scenarios
		"convert", "hfsource/hub", "internal/regular", "internal/suggest", "internal/terminal", "internal/tokenizer", "internal/tokensource", "replay/payload", "replay/preset", "replay/scenario",
		"go.yaml.in/yaml/v3",
	},
	"cmd/agentx": {
		"aiperf", "aiperf/inferencex", "aiperf/profile", "cachestore", "capture", "capture/carry", "capture/finish", "capture/journal", "convert", "convert/demo", "convert/rules", "convert/synth", "convert/weka", "hfsource", "hfsource/hub", "inspect", "internal/bytefmt", "internal/durable", "internal/guard", "internal/mock", "internal/settings", "internal/suggest", "internal/terminal", "internal/tokenizer", "internal/tokensource", "manifest", "mmapcache",
		"replay", "replay/capacity", "replay/measure", "replay/meet", "replay/merge", "replay/payload", "replay/preset", "replay/scenario", "replay/search", "replay/slo", "replay/wire",
		"report/compare", "report/export", "report/gate", "report/live", "report/markdown", "report/otlp", "report/until",
		"simulate", "simulate/setup", "trace",
		"github.com/klauspost/compress", "github.com/spf13/cobra", "github.com/spf13/pflag", "github.com/vbauerster/mpb/v8", "golang.org/x/term",
	},
}

// never are ways that no chain of lines above may make: builder and player meet only on disk, formats know nobody who
// uses them, and what tests are held against reaches no program.
var never = [][2]string{
	{"replay", "convert"}, {"replay", "hfsource"}, {"convert", "replay"},
	{"mmapcache", "cachestore"}, {"replay", "cachestore"}, {"cachestore", "convert"}, {"cachestore", "replay"},
	{"mmapcache", "convert"}, {"mmapcache", "replay"}, {"mmapcache", "hfsource"},
	{"hfsource", "mmapcache"}, {"hfsource", "convert"},
	{"replay/conductor", "replay/preset"}, {"replay/conductor", "replay"}, // every switch is resolved before the conductor starts
	{"report", "convert"}, {"report", "mmapcache"}, {"replay", "report"},
	{"internal/mock", "mmapcache"}, {"internal/mock", "replay"},
	{"cmd/agentx", "fixtures"}, {"cmd/agentx", "internal/cachetest"}, {"cmd/agentx", "hfsource/hub/fakehub"}, {"cmd/agentx", "internal/cachedir/faultdisk"},
	{"cmd/agentx", "report/page/pagetest"},
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
var commons = []string{"mmapcache", "manifest", "trace", "settings", "replay/measure", "replay/slo", "report/page"}

// doors are such verbs, with what they need besides.
var doors = map[string][]string{
	"simulate": {
		"replay", "replay/conductor", // trees are played by the player that drives servers, so that both send alike
		"report/frontier", // the rule of pages about which runs others dominate
	},
	"capture": {"convert/reconstruct", "convert/rules", "convert/weka"}, // a finished trace is checked by what converts it
}

// Nothing but the command imports what is below a door, and that imports little of ours.
func TestDoors(t *testing.T) {
	for from, edges := range imports {
		for _, to := range edges {
			if strings.Contains(to, ".") {
				continue // of another module
			}
			at, _, _ := strings.Cut(from, "/")
			top, _, _ := strings.Cut(to, "/")
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
	require.Equal(t, []string{"internal/endpoint"}, readImports(t)["capture/carry"])
	files, err := filepath.Glob("capture/carry/*.go")
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
