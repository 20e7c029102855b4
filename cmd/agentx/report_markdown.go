package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/agentx/agentx/report/gate"
	"github.com/agentx/agentx/report/markdown"
)

// stepSummary is the variable that names the file of the summary of a job on GitHub.
const stepSummary = "GITHUB_STEP_SUMMARY"

// printMarkdown prints what a run measured as Markdown, and appends it to the summary of the job.
func (f *reportFlags) printMarkdown(s *subject, verdicts []gate.Verdict) error {
	d := markdown.Document{Gates: verdicts}
	var err error
	if f.gate.base != "" {
		d.Against, err = s.against(f.gate.base)
	}
	if err == nil {
		d.Run, err = s.read()
	}
	if err == nil {
		d.Summary, err = s.summarize()
	}
	var text bytes.Buffer
	if err == nil {
		err = d.Write(&text)
	}
	if err != nil {
		return err
	}
	if _, err := s.cmd.OutOrStdout().Write(text.Bytes()); err != nil {
		return err
	}
	return appendStepSummary(os.Getenv(stepSummary), text.Bytes())
}

// appendStepSummary appends to the file; "": there is none.
func appendStepSummary(path string, text []byte) error {
	if path == "" {
		return nil
	}
	const noWait = syscall.O_NONBLOCK // for a reader, where the file is a pipe
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE|noWait, 0o666)
	if err == nil {
		_, err = file.Write(text)
		err = errors.Join(err, file.Close())
	}
	if err != nil {
		return fmt.Errorf("%s: %w", stepSummary, err)
	}
	return nil
}
