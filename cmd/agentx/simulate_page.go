package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/agentx/agentx/simulate"
	"github.com/agentx/agentx/simulate/page"
)

// sampling says which samples a page needs, and adds what is wrong with its flags. A planner's ticks take the place of samples.
func (f *simulateFlags) sampling(planned bool) simulate.Sampling {
	switch f.html {
	case "true": // of a file or the environment
		f.html = simulate.PageFile
	case "false":
		f.html = ""
	}
	switch {
	case f.sample == 0:
	case f.html == "":
		f.add("--sample %s: it concerns a page: add --html", f.sample)
	case planned:
		f.add("--sample %s beside --planner: the page has the ticks of the planner", f.sample)
	}
	if f.html == "" {
		return simulate.Sampling{}
	}
	switch {
	case filepath.Ext(f.html) != ".html":
		f.add("--html %s: want a name that ends in .html", f.html)
	case f.out != "" && filepath.Base(f.html) != f.html:
		f.add("--html %s beside --out: want a name without a directory, which --out is", f.html)
	case f.out == "" && !isDirectory(filepath.Dir(f.html)):
		f.add("--html %s: there is no directory %s", f.html, filepath.Dir(f.html))
	default:
		for _, name := range []string{f.html, logName(f.html)} {
			if path := filepath.Join(f.out, name); isDirectory(path) {
				f.add("--html %s: %s is a directory: want another name", f.html, path)
			}
		}
	}
	samples := simulate.Sampling{On: !planned, Every: f.sample}
	if err := samples.Validate(); err != nil {
		f.add("--sample: %w", err)
		samples.Every = 0
	}
	return samples
}

func isDirectory(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// checkPages adds what is wrong with the pages of several runs.
func (f *simulateFlags) checkPages(several bool) {
	if several && !f.curve.on && f.html != "" && f.out == "" {
		f.add("--html of several runs: add --out DIR, in which each has a directory with its page")
	}
}

// pageOf returns the page of a run and its log; nothing where no page is wanted.
func (f *simulateFlags) pageOf(r *simulate.Result, s *simulate.Summary) ([]simulate.MadeFile, error) {
	if f.html == "" {
		return nil, nil
	}
	html, err := page.Make(r, s)
	if err != nil {
		return nil, fmt.Errorf("page: %w", err)
	}
	var log bytes.Buffer
	if err := page.WriteLog(&log, r); err != nil {
		return nil, fmt.Errorf("log of the page: %w", err)
	}
	return []simulate.MadeFile{{Name: f.html, Data: html}, {Name: logName(f.html), Data: log.Bytes()}}, nil
}

// logName returns the file of the log beside a page.
func logName(page string) string {
	return strings.TrimSuffix(page, filepath.Ext(page)) + strings.TrimPrefix(simulate.LogFile, "simulate")
}

// writePage writes the page of a run without a directory of results.
func (f *simulateFlags) writePage(r *simulate.Result, s *simulate.Summary) error {
	files, err := f.pageOf(r, s)
	if err != nil {
		return err
	}
	return simulate.WriteMade("", files)
}

// printPage says where the page is.
func printPage(w io.Writer, path string) error {
	if path == "" {
		return nil
	}
	_, err := fmt.Fprintf(w, "page            %s\n", path)
	return err
}
