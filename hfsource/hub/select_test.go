package hub

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/internal/fakehub"
)

// asRevision replies as if another revision had been asked for.
func asRevision(revision string) fakehub.Fault {
	return func(next http.HandlerFunc) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			r.URL.Path = "/api/datasets/" + repoName + "/revision/" + revision
			r.URL.RawPath = ""
			next(w, r)
		}
	}
}

// fakeContents implements contents in memory.
type fakeContents struct {
	files map[string]string
	bare  bool // without a listing
	said  *[]string
}

func (s fakeContents) say(format string, args ...any) {
	*s.said = append(*s.said, fmt.Sprintf(format, args...))
}

func (s fakeContents) complete() (*tree, bool) {
	t := &tree{Files: map[string]entry{}}
	for path, text := range s.files {
		t.Files[path] = entry{Size: int64(len(text)), BlobID: strings.Repeat("a", 40)}
	}
	return t, !s.bare
}

func (s fakeContents) has(path string) bool { _, ok := s.files[path]; return ok }

func (s fakeContents) card() ([]byte, bool, error) {
	text, ok := s.files[cardName]
	return []byte(text), ok, nil
}

func files(names ...string) map[string]string {
	m := map[string]string{}
	for _, name := range names {
		m[name] = ""
	}
	return m
}

func TestChoose(t *testing.T) {
	matter := func(yaml string) string { return "---\n" + yaml + "\n---\ntext\n" }
	for name, c := range map[string]struct {
		ref   Ref
		files string // space-separated
		card  string // "": no card
		want  string // "": an error, which contains
		text  string
		said  string
	}{
		"path":                  {ref: Ref{Path: "b.txt"}, files: "a.jsonl b.txt", card: "broken", want: "b.txt"},
		"path absent":           {ref: Ref{Path: "c"}, files: "a.jsonl", text: "no such file"},
		"path is directory":     {ref: Ref{Path: "d"}, files: "d/a.jsonl", text: "directory"},
		"string":                {files: "x.jsonl a.jsonl", card: matter("configs:\n- config_name: default\n  data_files: x.jsonl"), want: "x.jsonl"},
		"list of strings":       {files: "x.jsonl a.jsonl", card: matter("configs:\n- config_name: default\n  data_files: [x.jsonl, a.jsonl]"), want: "x.jsonl a.jsonl"},
		"splits":                {files: "x.jsonl a.jsonl t.jsonl", card: matter("configs:\n- config_name: default\n  data_files:\n  - split: test\n    path: t.jsonl\n  - split: train\n    path: [x.jsonl, a.jsonl]"), want: "x.jsonl a.jsonl"},
		"no split is train":     {files: "x.jsonl", card: matter("configs:\n- config_name: default\n  data_files:\n  - path: x.jsonl"), want: "x.jsonl"},
		"no train":              {files: "x.jsonl", card: matter("configs:\n- config_name: default\n  data_files:\n  - split: test\n    path: x.jsonl"), text: "no split train, only test"},
		"config default":        {files: "x.jsonl a.jsonl", card: matter("configs:\n- config_name: b\n  data_files: x.jsonl\n- config_name: default\n  data_files: a.jsonl"), want: "a.jsonl"},
		"the only config":       {files: "x.jsonl", card: matter("configs:\n- config_name: b\n  data_files: x.jsonl"), want: "x.jsonl"},
		"several configs":       {files: "x.jsonl", card: matter("configs:\n- config_name: c\n  data_files: x.jsonl\n- config_name: b\n  data_files: x.jsonl"), text: "b, c"},
		"two of a name":         {files: "x.jsonl", card: matter("configs:\n- config_name: c\n  data_files: x.jsonl\n- config_name: c\n  data_files: x.jsonl"), text: "two configs"},
		"globs":                 {files: "b1.jsonl a1.jsonl d/a1.jsonl a22.jsonl", card: matter("configs:\n- config_name: default\n  data_files: ['?1.jsonl', 'a*.jsonl']"), want: "a1.jsonl b1.jsonl a22.jsonl"},
		"deep globs":            {files: "b.jsonl d/a.jsonl d/e/c.jsonl d/e/c.txt", card: matter("configs:\n- config_name: default\n  data_files: '**/*.jsonl'"), want: "b.jsonl d/a.jsonl d/e/c.jsonl"},
		"inner deep glob":       {files: "d/a.jsonl d/e/f/a.jsonl e/a.jsonl", card: matter("configs:\n- config_name: default\n  data_files: 'd/**/a.jsonl'"), want: "d/a.jsonl d/e/f/a.jsonl"},
		"brackets are bytes":    {files: "a.jsonl [ab].jsonl", card: matter("configs:\n- config_name: default\n  data_files: '[ab].jsonl'"), want: "[ab].jsonl"},
		"no match":              {files: "x.jsonl", card: matter("configs:\n- config_name: default\n  data_files: y.jsonl"), text: `"y.jsonl"`},
		"no match of a glob":    {files: "x.jsonl", card: matter("configs:\n- config_name: default\n  data_files: ['x.jsonl', '*.json']"), text: `"*.json"`},
		"traversal":             {files: "x.jsonl", card: matter("configs:\n- config_name: default\n  data_files: ../x.jsonl"), text: `"../x.jsonl"`},
		"absolute":              {files: "x.jsonl", card: matter("configs:\n- config_name: default\n  data_files: /x.jsonl"), text: "absolute"},
		"an address":            {files: "x.jsonl", card: matter("configs:\n- config_name: default\n  data_files: https://example.com/x.jsonl"), text: "https://"},
		"not YAML":              {files: "x.jsonl", card: matter("configs: ["), text: "cannot be read"},
		"no list":               {files: "x.jsonl", card: matter("configs: 5"), text: "cannot be read"},
		"configs a text":        {files: "x.jsonl", card: matter("license: x\nconfigs: traces.jsonl"), text: "cannot be read: line 3: !!str `traces....`, where configs is a list of maps"},
		"config_name a list":    {files: "x.jsonl", card: matter("configs:\n- config_name: [a]\n  data_files: x.jsonl"), text: "cannot be read: line 3: !!seq, where configs is a list of maps"},
		"a key twice":           {files: "x.jsonl", card: matter("configs: []\nconfigs: []"), text: `cannot be read: line 3: mapping key "configs" already defined at line 2`},
		"a tab":                 {files: "x.jsonl", card: matter("configs:\n\t- x"), text: "cannot be read: line 3: found character"},
		"too many globs":        {files: "x.jsonl", card: matter("configs:\n- data_files:" + strings.Repeat("\n  - '*.jsonl'", maxGlobs+1)), text: "README.md names more than 1000 patterns with * or ?"},
		"many names":            {files: "x.jsonl", card: matter("configs:\n- data_files:" + strings.Repeat("\n  - x.jsonl", maxGlobs+1)), want: "x.jsonl"},
		"data_files a map":      {files: "x.jsonl", card: matter("configs:\n- config_name: default\n  data_files: {a: b}"), text: "neither"},
		"no data_files":         {files: "x.jsonl", card: matter("configs:\n- config_name: default"), text: "neither"},
		"data_dir":              {files: "x.jsonl", card: matter("configs:\n- config_name: default\n  data_dir: d"), text: "data_dir"},
		"CRLF and BOM":          {files: "x.jsonl a.jsonl", card: "\xef\xbb\xbf---\r\nconfigs:\r\n- config_name: default\r\n  data_files: x.jsonl\r\n---\r\n", want: "x.jsonl"},
		"no configs":            {files: "b.jsonl a.jsonl c.parquet d.json", card: matter("license: x"), want: "a.jsonl b.jsonl"},
		"no front matter":       {files: "b.jsonl.zst a.jsonl.gz c.parquet", card: "# hello", want: "a.jsonl.gz b.jsonl.zst"},
		"no card":               {files: "c.parquet b/d.parquet d.json", want: "b/d.parquet c.parquet"},
		"JSON last":             {files: "d.json b.json.zst e.json.gz stats.txt", want: "b.json.zst d.json e.json.gz"},
		"nothing":               {files: "stats.txt", text: "none of its 1 files"},
		"empty":                 {text: "none of its 0 files"},
		"other names":           {files: "b.ndjson a.JSONL.GZ c.jsonlines .hidden.jsonl .d/e.jsonl d.parquet", want: "a.JSONL.GZ b.ndjson c.jsonlines"},
		"splits by name":        {files: "train.jsonl test.jsonl dev.jsonl x.jsonl", want: "train.jsonl", said: "no card names the data files: 1 of 4 are used, those of the split train by their names"},
		"split directories":     {files: "train/a.parquet train/b.parquet eval/a.parquet", want: "train/a.parquet train/b.parquet", said: "2 of 3 are used, those of the split train"},
		"shards of splits":      {files: "data/train-00000-of-00002.parquet data/train-00001-of-00002.parquet data/other-00000-of-00001.parquet train.jsonl", want: "data/train-00000-of-00002.parquet data/train-00001-of-00002.parquet", said: "2 of 4"},
		"words in a path":       {files: "my-training_set.json retrain.json contest.json", want: "my-training_set.json", said: "1 of 3"},
		"all of one split":      {files: "train-1.jsonl train-2.jsonl", want: "train-1.jsonl train-2.jsonl"},
		"one split, no train":   {files: "test.jsonl x.jsonl", want: "test.jsonl", said: "1 of 2 are used, those of the split test"},
		"splits, no train":      {files: "test.jsonl val.jsonl", text: "they are of the splits test, validation: none is train"},
		"a split before a kind": {files: "stats.jsonl train.parquet test.parquet", want: "train.parquet", said: "1 of 3"},
		"byte order":            {files: "b.jsonl B.jsonl2 a/z.jsonl a.jsonl", want: "a.jsonl a/z.jsonl b.jsonl"},

		"parquet":              {ref: Ref{Revision: parquetRevision}, files: "default/train/0001.parquet default/train/0000.parquet default/test/0000.parquet other/train/0.parquet default/train/x.txt", card: "broken", want: "default/train/0000.parquet default/train/0001.parquet"},
		"parquet, one config":  {ref: Ref{Revision: parquetRevision}, files: "x/train/0000.parquet", want: "x/train/0000.parquet"},
		"parquet, two configs": {ref: Ref{Revision: parquetRevision}, files: "x/train/0000.parquet y/train/0000.parquet", text: "x, y"},
		"parquet, partial":     {ref: Ref{Revision: parquetRevision}, files: "default/partial-train/0000.parquet", text: "only a part"},
		"parquet, no train":    {ref: Ref{Revision: parquetRevision}, files: "default/test/0000.parquet", text: "default/train/*.parquet"},
		"parquet, nothing":     {ref: Ref{Revision: parquetRevision}, files: ".gitattributes", text: "no config"},
	} {
		t.Run(name, func(t *testing.T) {
			var said []string
			s := fakeContents{files: files(strings.Fields(c.files)...), said: &said}
			if c.card != "" {
				s.files[cardName] = c.card
			}
			got, err := selectFiles(t.Context(), c.ref, s)
			if c.want != "" {
				require.NoError(t, err)
				assert.Equal(t, strings.Fields(c.want), got)
				assert.Contains(t, strings.Join(said, "\n"), c.said)
				assert.Equal(t, c.said != "", said != nil)
				return
			}
			require.Error(t, err)
			assert.Contains(t, err.Error(), c.text)
			assert.NotRegexp(t, "struct|yaml|unmarshal", err.Error())
		})
	}
}

func TestChoosingIsInterrupted(t *testing.T) {
	s := fakeContents{files: files("x.jsonl", "y.txt")}
	s.files[cardName] = strings.Replace(cardText, data, "'*.jsonl'", 1)
	ctx, cancel := context.WithCancel(t.Context())
	got, err := selectFiles(ctx, Ref{}, s)
	require.NoError(t, err)
	assert.Equal(t, []string{"x.jsonl"}, got)
	cancel()
	_, err = selectFiles(ctx, Ref{}, s)
	assert.ErrorIs(t, err, context.Canceled)
}

// Without a listing only files that are named one by one can be selected.
func TestChooseWithoutAListing(t *testing.T) {
	plain := "---\nconfigs:\n- config_name: default\n  data_files: x.jsonl\n---\n"
	globbed := strings.Replace(plain, "x.jsonl", "'*.jsonl'", 1)
	for name, c := range map[string]struct {
		ref   Ref
		files map[string]string
		fine  bool
	}{
		"path":               {Ref{Path: "x.jsonl"}, map[string]string{"x.jsonl": ""}, true},
		"path absent":        {Ref{Path: "y.jsonl"}, map[string]string{"x.jsonl": ""}, false},
		"card with a path":   {Ref{}, map[string]string{"x.jsonl": "", cardName: plain}, true},
		"its file absent":    {Ref{}, map[string]string{cardName: plain}, false},
		"card with a glob":   {Ref{}, map[string]string{"x.jsonl": "", cardName: globbed}, false},
		"card without":       {Ref{}, map[string]string{"x.jsonl": "", cardName: "# x"}, false},
		"no card":            {Ref{}, map[string]string{"x.jsonl": ""}, false},
		"the parquet branch": {Ref{Revision: parquetRevision}, map[string]string{"default/train/0.parquet": ""}, false},
	} {
		got, err := selectFiles(t.Context(), c.ref, fakeContents{c.files, true, nil})
		if c.fine {
			require.NoError(t, err, name)
			assert.Equal(t, []string{"x.jsonl"}, got)
		} else {
			require.Error(t, err, name)
			assert.Equal(t, ClassNotCached, classOf(err))
		}
	}
}

func FuzzCard(f *testing.F) {
	f.Add([]byte(cardText))
	f.Add([]byte("---\nconfigs: &a [*a]\n---\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		patterns, _, err := parseCard(text)
		if err != nil {
			return
		}
		for _, p := range patterns {
			require.NoError(t, checkPath(p))
			compileGlob(p).MatchString("a/b")
		}
	})
}

// The Parquet branch has its own commit, and its card is not read.
func TestParquetRevision(t *testing.T) {
	runInBubble(t, func(w *fixture) {
		w.files = map[string]fakehub.File{}
		for k := range 3 {
			w.files[fmt.Sprintf("default/train/%04d.parquet", k)] = fakehub.File{Data: content(2000, byte(k)), LFS: true}
		}
		w.commit = w.hub.Commit(repoName, parquetRevision, w.files)
		s := w.mustFetch(ref + "@refs/convert/parquet")
		require.Len(t, s.Files, 3)
		assert.Equal(t, "default/train/0001.parquet", s.Files[1].Path)
		w.checkCalls(2, 3, 3)
		w.mustFetch(ref + "@refs%2Fconvert%2Fparquet")
		w.checkCalls(1, 0, 0)
	})
}

func mustParse(text string) *url.URL {
	u, err := url.Parse(text)
	if err != nil {
		panic(err)
	}
	return u
}
