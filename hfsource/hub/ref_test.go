package hub

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestParse(t *testing.T) {
	for input, want := range map[string]Ref{
		"hf://datasets/o/n":                                  {Repo: "o/n"},
		"hf://datasets/o/n/":                                 {Repo: "o/n"},
		"hf://datasets/o/n/a/b.jsonl":                        {Repo: "o/n", Path: "a/b.jsonl"},
		"hf://datasets/o/n@main":                             {Repo: "o/n", Revision: "main"},
		"hf://datasets/o/n@v1.0/a/b@c.jsonl":                 {Repo: "o/n", Revision: "v1.0", Path: "a/b@c.jsonl"},
		"hf://datasets/o/n/a@b.jsonl":                        {Repo: "o/n", Path: "a@b.jsonl"},
		"hf://datasets/o/n@refs/convert/parquet":             {Repo: "o/n", Revision: "refs/convert/parquet"},
		"hf://datasets/o/n@refs/convert/parquet/default/x":   {Repo: "o/n", Revision: "refs/convert/parquet", Path: "default/x"},
		"hf://datasets/o/n@refs%2Fconvert%2Fparquet/x":       {Repo: "o/n", Revision: "refs/convert/parquet", Path: "x"},
		"hf://datasets/o/n@refs/pr/12/x":                     {Repo: "o/n", Revision: "refs/pr/12", Path: "x"},
		"hf://datasets/o/n@feature%2Fx/y":                    {Repo: "o/n", Revision: "feature/x", Path: "y"},
		"hf://datasets/o/n@feature/x":                        {Repo: "o/n", Revision: "feature", Path: "x"},
		"hf://datasets/o/n/100%25.jsonl":                     {Repo: "o/n", Path: "100%25.jsonl"},
		"agentx-062126":                                      {Repo: "semianalysisai/cc-traces-weka-062126"},
		"agentx-062126-256k@main/traces.jsonl":               {Repo: "semianalysisai/cc-traces-weka-062126-256k", Revision: "main", Path: "traces.jsonl"},
		"hf://datasets/o/n@" + strings.Repeat("a", 40):       {Repo: "o/n", Revision: strings.Repeat("a", 40)},
		"hf://datasets/o/n@" + strings.Repeat("a", 40) + "/": {Repo: "o/n", Revision: strings.Repeat("a", 40)},
	} {
		require.True(t, IsRef(input), input)
		got, err := Parse(input)
		require.NoError(t, err, input)
		assert.Equal(t, want, got, input)
		again, err := Parse(got.String())
		require.NoError(t, err, got.String())
		assert.Equal(t, got, again)
	}
	for _, input := range []string{
		"", "hf://", "hf://datasets", "hf://datasets/", "hf://datasets/o", "hf://datasets//n", "hf://datasets/o/", "hf://models/o/n", "hf://o/n", "hf://datasets/o/n@",
		"hf://datasets/o/n@/x", "hf://datasets/o/n@a%zz", "hf://datasets/o/n@..", "hf://datasets/o/n@a%2F..%2Fb", "hf://datasets/o/n@a%00", "hf://datasets/o/n@%2Fa",
		"hf://datasets/../n", "hf://datasets/o/..", "hf://datasets/o/a--b", "hf://datasets/o/a..b", "hf://datasets/./n", "hf://datasets/o/n//x", "hf://datasets/o/n/../x",
		"hf://datasets/o/n/./x", "hf://datasets/o/n/a\\b", "hf://datasets/o/n/\x00", "hf://datasets/o/\u00e9", "hf://datasets/o/n\u00e9", "hf://datasets/" + strings.Repeat("o", 97) + "/n",
		"agentx-999999", "demo", "file.jsonl", "hf://datasets/o/n/\xff",
		"hf://datasets/o/n/a\u202elnosj", "hf://datasets/o/n@\u2066main", "hf://datasets/o/n@a%E2%80%AEb", "hf://datasets/o/n/\u009b2J", "hf://datasets/o/n/\u061c",
	} {
		_, err := Parse(input)
		assert.Error(t, err, "%q", input)
		if err != nil {
			assert.Contains(t, err.Error(), input)
			assert.NotEmpty(t, Hint(err))
		}
	}
	assert.False(t, IsRef("agentx-999999"))
	assert.False(t, IsRef("demo"))
	assert.True(t, IsRef("hf://anything"))
}

func TestNamedDatasets(t *testing.T) {
	seen := map[string]bool{}
	for _, n := range NamedDatasets() {
		assert.False(t, seen[n.Name], n.Name)
		seen[n.Name] = true
		assert.Equal(t, "semianalysisai/cc-traces-weka-"+strings.TrimPrefix(n.Name, "agentx-"), n.Repo)
		assert.NotEmpty(t, n.Description)
		require.NoError(t, checkRepo(n.Repo))
	}
	assert.True(t, seen["agentx-062126"] && seen["agentx-062126-256k"] && seen["agentx-042026"])
}

func TestRevisionsTravelEncoded(t *testing.T) {
	runInBubble(t, func(w *fixture) {
		for _, revision := range []string{"refs/convert/parquet", "feature/x", "a&b=c:d@e+f$g", "v1 é", "100%"} {
			w.files = clone(w.files)
			delete(w.files, cardName)
			w.commit = w.hub.Commit(repoName, revision, w.files)
			r := Ref{Repo: repoName, Revision: revision, Path: data}
			again, err := Parse(r.String())
			require.NoError(t, err, r.String())
			require.Equal(t, r, again)
			w.hub.ResetLog()
			s := w.mustFetch(r.String())
			assert.Equal(t, w.commit, s.Commit)
			assert.NotContains(t, strings.TrimPrefix(w.hub.Log()[0].Path, "/api/datasets/"+repoName+"/revision/"), "/")
			assert.FileExists(t, w.repoPath("refs", revision))
			w.env["HF_HUB_OFFLINE"] = "1"
			s = w.mustFetch(r.String())
			assert.Equal(t, ResolvedByLocalRef, s.Resolution)
			delete(w.env, "HF_HUB_OFFLINE")
		}
	})
}

func TestShortCommitIsRefused(t *testing.T) {
	runInBubble(t, func(w *fixture) {
		w.hub.Commit(repoName, w.commit[:8], w.files) // some hub may accept it as a revision
		w.commit = w.hub.Commit(repoName, w.commit[:8], w.files)
		w.mustFetch(ref + "@main")
		short := w.commit[:10]
		w.hub.On(onInfo, asRevision(w.commit))
		_, err := w.fetch(ref + "@" + short)
		require.Error(t, err)
		assert.Equal(t, ClassInvalid, classOf(err), err)
		assert.Equal(t, "@"+w.commit, Hint(err))
	})
}

func FuzzParse(f *testing.F) {
	f.Add("hf://datasets/o/n@refs%2Fconvert%2Fparquet/a/b")
	f.Add("agentx-062126@x")
	f.Fuzz(func(t *testing.T, input string) {
		r, err := Parse(input)
		if err != nil {
			return
		}
		require.NoError(t, checkRepo(r.Repo))
		if r.Path != "" {
			require.NoError(t, checkPath(r.Path))
		}
		again, err := Parse(r.String())
		require.NoError(t, err, r.String())
		require.Equal(t, r, again)
	})
}

// Suggestions for wrong inputs are references that parse.
func TestSuggest(t *testing.T) {
	for input, want := range map[string]string{
		"https://huggingface.co/datasets/o/n":                                                       "hf://datasets/o/n",
		"https://huggingface.co/datasets/o/n/":                                                      "hf://datasets/o/n",
		"http://www.huggingface.co/datasets/o/n?row=1#x":                                            "hf://datasets/o/n",
		"huggingface.co/datasets/o/n":                                                               "hf://datasets/o/n",
		"hf.co/datasets/o/n/tree/main":                                                              "hf://datasets/o/n@main",
		"https://huggingface.co/datasets/o/n/tree/main/plots":                                       "hf://datasets/o/n@main",
		"https://huggingface.co/datasets/o/n/blob/main/a/b%20c.jsonl":                               "hf://datasets/o/n@main/a/b c.jsonl",
		"https://huggingface.co/datasets/o/n/resolve/v1/traces.jsonl?download=true":                 "hf://datasets/o/n@v1/traces.jsonl",
		"https://huggingface.co/datasets/o/n/tree/refs%2Fconvert%2Fparquet/default":                 "hf://datasets/o/n@refs/convert/parquet",
		"https://huggingface.co/datasets/o/n/blob/refs%2Fconvert%2Fparquet/default/train/0.parquet": "hf://datasets/o/n@refs%2Fconvert%2Fparquet/default/train/0.parquet",
		"https://huggingface.co/datasets/o/n/viewer":                                                "hf://datasets/o/n",
		"https://huggingface.co/api/datasets/o/n":                                                   "hf://datasets/o/n",
		"https://huggingface.co/api/datasets/o/n/revision/v1":                                       "hf://datasets/o/n@v1",
		"https://huggingface.co/api/datasets/o/n/tree/main?recursive=true":                          "hf://datasets/o/n@main",
		"https://mirror.example/datasets/o/n":                                                       "hf://datasets/o/n",
		"/api/datasets/o/n":                                                                         "hf://datasets/o/n",
		"datasets/o/n":                                                                              "hf://datasets/o/n",
		"datasets/o/n/resolve/main/x.jsonl":                                                         "hf://datasets/o/n@main/x.jsonl",
		"HF://datasets/o/n/tree/main":                                                               "hf://datasets/o/n@main",
		"hf://o/n/resolve/main/a/x%20.jsonl":                                                        "hf://datasets/o/n@main/a/x%20.jsonl",
		"HF://datasets/o/n/blob/refs%2Fpr%2F1/x":                                                    "hf://datasets/o/n@refs/pr/1/x",
		"semianalysisai/cc-traces-weka-062126":                                                      "hf://datasets/semianalysisai/cc-traces-weka-062126",
		"semianalysisai/cc-traces-weka-062126@main":                                                 "hf://datasets/semianalysisai/cc-traces-weka-062126@main",
		"HF://datasets/o/n@main":                                                                    "hf://datasets/o/n@main",
		"Hf://DataSets/O/n/x":                                                                       "hf://datasets/O/n/x",
		"hf://o/n":                                                                                  "hf://datasets/o/n",
		"agentx-062123":                                                                             "agentx fetch lists all names; the nearest are agentx-062126, ",
		"AGENTX-062126-256K":                                                                        "agentx fetch lists all names; the nearest are agentx-062126-256k, ",
		"agentx-999":                                                                                "agentx fetch lists all names; the nearest are agentx-",
	} {
		got := Suggest(input)
		if strings.HasPrefix(want, "hf:") {
			r, err := Parse(got)
			require.NoError(t, err, input)
			wanted, err := Parse(want)
			require.NoError(t, err, input)
			assert.Equal(t, wanted, r, input)
		} else {
			assert.True(t, strings.HasPrefix(got, want), "%s: %s", input, got)
			assert.Equal(t, 2, strings.Count(got, ", "))
		}
		_, err := Parse(input)
		assert.Equal(t, got, Hint(err), input)
	}
	for _, input := range []string{"", "x", "traces.jsonl", "agentx-traces.jsonl", "https://example.com/o/n", "https://huggingface.co/spaces/o/n", "https://huggingface.co/docs/o", "https://huggingface.co/datasets/o", "o/n.jsonl", "./o/n", "../n", "o/n/x", "/o/n", "o/n--x", "datasets/o", "https://huggingface.co/datasets/o/n--x", "ftp://huggingface.co/datasets/o/n", "HF://"} {
		assert.Empty(t, Suggest(input), input)
	}
	for input, want := range map[string]string{
		"https://huggingface.co/o/n":           "", // a model
		"hf://models/o/n":                      "",
		"hf://Spaces/o/n":                      "",
		"someone/traces":                       "hf://datasets/someone/traces, if a dataset of the hub is meant",
		"hf://datasets/o/n/resolve/main/x":     "hf://datasets/o/n@main/x",
		"hf://datasets/o/n/tree/main":          "hf://datasets/o/n@main",
		"hf://datasets/o/n@v1/resolve/main/x":  "hf://datasets/o/n@v1/resolve/main/x",
		"hf://datasets/o/n/plots/resolve/main": "hf://datasets/o/n/plots/resolve/main",
	} {
		assert.Equal(t, want, Suggest(input), input)
	}
}

// Fetch validates references and options before any request.
func TestFetchValidates(t *testing.T) {
	runInBubble(t, func(w *fixture) {
		o := w.options()
		o.Transport = forbidden{t}
		for want, r := range map[string]Ref{
			`"" is not OWNER/NAME`:      {},
			`"o/../n" is not OWNER`:     {Repo: "o/../n"},
			`revision "../x": it has a`: {Repo: repoName, Revision: "../x"},
			`path "/x": it is absolute`: {Repo: repoName, Path: "/x"},
		} {
			_, err := Fetch(w.context(), r, o)
			require.ErrorContains(t, err, want)
			assert.Equal(t, ClassInvalid, classOf(err))
		}
		o.Version = "a\nb"
		_, err := Fetch(w.context(), Ref{Repo: repoName}, o)
		require.ErrorContains(t, err, `option Version "a\nb": want printable ASCII`)
	})
}
