package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/agentx/agentx/hfsource/hub/fakehub"
)

// hubs DIR [REVISION] serves a directory as the dataset of agentx-062126, its .jsonl files in LFS, from a hub of the
// script's own: $HF_ENDPOINT. $HF_HOME is empty at first, and $COMMIT is the commit of the dataset. Another call changes
// what is served; hub gated, hub down and hub corrupt make it fail, and hub stop ends it.
func hubs(ts *testscript.TestScript, neg bool, args []string) {
	h := hubsRunning[ts]
	if h == nil {
		h = fakehub.New()
		ts.Check(h.Listen())
		hubsRunning[ts] = h
		ts.Defer(func() {
			h.Close()
			delete(hubsRunning, ts)
		})
		ts.Setenv("HF_ENDPOINT", h.HubURL)
		ts.Setenv("HF_HOME", ts.MkAbs("huggingface"))
	}
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
	files := map[string]fakehub.File{}
	dir := ts.MkAbs(args[0])
	ts.Check(filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path)
		files[filepath.ToSlash(name)] = fakehub.File{Data: data, LFS: strings.HasSuffix(name, ".jsonl")}
		return err
	}))
	revision := "main"
	if len(args) > 1 {
		revision = args[1]
	}
	ts.Setenv("COMMIT", h.Commit("semianalysisai/cc-traces-weka-062126", revision, files))
}

var hubsRunning = map[*testscript.TestScript]*fakehub.Hub{}
