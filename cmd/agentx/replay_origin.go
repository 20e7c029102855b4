package main

import (
	"github.com/spf13/pflag"
)

// origin is where a value comes from: one of the kinds below, and the place in words, such as run.yaml:3 or --speed.
type origin struct{ kind, at string }

// The kinds of origins.
const (
	fromDefault     = "default"
	fromPreset      = "preset"
	fromScenario    = "scenario"
	fromFile        = "file"
	fromEnvironment = "environment"
	fromFlag        = "flag"
)

// precedence lists the kinds of origins by who has the last word: a value replaces those of the kinds before.
var precedence = []string{fromDefault, fromPreset, fromScenario, fromFile, fromEnvironment, fromFlag}

// originNote is the annotation of a flag that something else than the command line set: the two parts of the origin.
const originNote = "origin"

// originOf returns the origin of the value of a flag.
func originOf(f *pflag.Flag) origin {
	switch note := f.Annotations[originNote]; {
	case !f.Changed:
		return origin{fromDefault, fromDefault}
	case len(note) == 2:
		return origin{note[0], note[1]}
	}
	return origin{fromFlag, "--" + f.Name}
}

// named returns a flag as the user wrote it: --url, AGENTX_URL, or run.yaml:3: url.
func named(f *pflag.Flag) string {
	switch from := originOf(f); from.kind {
	case fromEnvironment:
		return from.at
	case fromFile:
		return from.at + ": " + f.Name
	}
	return "--" + f.Name
}
