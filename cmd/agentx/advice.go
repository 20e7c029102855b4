package main

import (
	"errors"

	"github.com/agentx/agentx/convert"
)

// adviseConvert adds what to try to an error of a conversion.
func adviseConvert(err error) error {
	var invalid *convert.InvalidError
	if errors.As(err, &invalid) {
		return tryError{err, "--skip-invalid leaves such traces out and lists them"}
	}
	return err
}
