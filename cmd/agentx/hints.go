package main

import (
	"errors"

	"github.com/agentx/agentx/cachestore"
	"github.com/agentx/agentx/convert"
	"github.com/agentx/agentx/convert/weka"
	"github.com/agentx/agentx/hfsource"
)

// hintConvert adds what to try to an error of a conversion.
func hintConvert(err error) error {
	var fault *weka.Error
	if errors.As(err, &fault) && fault.Hint != "" {
		return hintError{err, fault.Hint}
	}
	var invalid *convert.InvalidTraceError
	if errors.As(err, &invalid) {
		return hintError{err, "--skip-invalid leaves such traces out and lists them"}
	}
	var unreadable *hfsource.UnreadableError
	if errors.As(err, &unreadable) {
		return hintError{err, unreadable.Hint()}
	}
	var memory *hfsource.MemoryLimitError
	if errors.As(err, &memory) {
		return hintError{err, memory.Hint}
	}
	var differs *convert.RebuildMismatchError
	if errors.As(err, &differs) {
		return hintError{verdictError{err}, "agentx convert INPUT --force, or agentx cache rm; and find out which of the two is wrong"}
	}
	if errors.Is(err, cachestore.ErrBusy) {
		return hintError{err, "again without --no-wait, or with a longer --wait"}
	}
	return hintHub(err)
}
