package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/agentx/agentx/internal/fakehub"
)

// hubs DIR [REVISION] serves a directory as the dataset of agentx-062126, its .jsonl files in LFS, from a hub of the
// script's own: $HF_ENDPOINT. $HF_HOME is empty at first, and $COMMIT is the commit of the dataset. Another call changes
// what is served; hub gated, hub down and hub corrupt make it fail, and hub stop ends it.
func hubs(ts *testscript.TestScript, neg bool, args []string) {
	h := startHub(ts)
	switch args[0] {
	case "gated":
		h.On(fakehub.Match{}, fakehub.Refuse(403, "GatedRepo", "Access to this dataset is restricted"))
		return
	case "corrupt":
		h.On(fakehub.Match{Listener: "cdn"}, fakehub.Corrupt(10))
		return
	case "fine":
		h.Off()
		return
	case "stop":
		h.Close()
		return
	}
	files := hubFiles(ts, args[0])
	revision := "main"
	if len(args) > 1 {
		revision = args[1]
	}
	ts.Setenv("COMMIT", h.Commit("semianalysisai/cc-traces-weka-062126", revision, files))
}

// model OWNER/NAME DIR serves a directory as a model, from the hub of the script. $COMMIT is its commit.
func model(ts *testscript.TestScript, neg bool, args []string) {
	ts.Setenv("COMMIT", startHub(ts).CommitModel(args[0], "main", hubFiles(ts, args[1])))
}

// startHub returns the hub of the script, which runs until the script ends.
func startHub(ts *testscript.TestScript) *fakehub.Hub {
	servers := serversOf(ts)
	if servers.hub != nil {
		return servers.hub
	}
	h := fakehub.New()
	ts.Check(h.Listen())
	servers.hub = h
	ts.Defer(h.Close)
	ts.Setenv("HF_ENDPOINT", h.HubURL)
	ts.Setenv("HF_HOME", ts.MkAbs("huggingface"))
	return h
}

// hubFiles reads the files of a directory; those of JSON lines are in LFS.
func hubFiles(ts *testscript.TestScript, name string) map[string]fakehub.File {
	files := map[string]fakehub.File{}
	dir := ts.MkAbs(name)
	ts.Check(filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path)
		files[filepath.ToSlash(name)] = fakehub.File{Data: data, LFS: strings.HasSuffix(name, ".jsonl")}
		return err
	}))
	return files
}

// tokenizers NAME DIR copies a small tokenizer of the tests of internal/tokenizer to DIR/tokenizer.json, or DIR/tiktoken.model.
func tokenizers(ts *testscript.TestScript, neg bool, args []string) {
	name := "tokenizer.json"
	if strings.HasSuffix(args[0], ".tiktoken") {
		name = "tiktoken.model"
	}
	data, err := os.ReadFile(filepath.Join(tokenizerFixtures, args[0]))
	ts.Check(err)
	ts.Check(os.MkdirAll(ts.MkAbs(args[1]), 0o777))
	ts.Check(os.WriteFile(filepath.Join(ts.MkAbs(args[1]), name), data, 0o666))
}

// tokenizerFixtures is a directory with small tokenizers, whichever directory the test is in.
var tokenizerFixtures, _ = filepath.Abs("../../internal/tokenizer/testdata")
