package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/pflag"
)

// origin is where a value comes from: one of the kinds below, and the place in words, such as run.yaml:3 or --speed.
type origin struct{ kind, at string }

// The kinds of origins, a later one before an earlier one.
const (
	fromDefault     = "default"
	fromPreset      = "preset"
	fromScenario    = "scenario"
	fromFile        = "file"
	fromEnvironment = "environment"
	fromFlag        = "flag"
)

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

// given is a text that something gives a setting.
type given struct {
	setting *setting
	text    string
	shown   string // as the user wrote it, such as --speed 2
	from    origin
}

// aliasValue is the value of a flag that sets a setting: the text, which is read with all others.
type aliasValue struct {
	setting *setting
	text    *string
}

func (a aliasValue) Set(text string) error { *a.text = text; return nil }

func (a aliasValue) Type() string { return a.setting.kind.flag }

func (a aliasValue) String() string {
	switch {
	case a.text == nil: // pflag makes zero values
		return ""
	case *a.text != "":
		return *a.text
	case a.setting.auto:
		return ""
	case a.setting.value == nil, a.setting.value == false:
		return "0"
	}
	return fmt.Sprint(a.setting.value)
}

// registerAliases registers the flags of settings.
func registerAliases(flags *pflag.FlagSet) {
	for k := range settings {
		if s := &settings[k]; s.alias != "" {
			f := flags.VarPF(aliasValue{s, new(string)}, s.alias, "", s.about)
			if s.kind.flag == "bool" {
				f.NoOptDefVal = "true"
			}
		}
	}
}

// isAlias reports whether a flag sets a setting.
func isAlias(f *pflag.Flag) bool {
	_, ok := f.Value.(aliasValue)
	return ok
}

// twin returns the variable that sets a flag.
func twin(flag string) string {
	return "AGENTX_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// givenByFlags returns what the command line gives settings. Rules are the values of --set that name none.
func (r *resolution) givenByFlags(set []string) {
	r.flags.Visit(func(f *pflag.Flag) {
		a, ok := f.Value.(aliasValue)
		if ok && !(a.setting.auto && *a.text == "") { // which is no value
			r.give(given{a.setting, *a.text, "--" + f.Name + " " + *a.text, origin{fromFlag, "--" + f.Name}})
		}
	})
	for _, text := range set {
		r.giveSet(text, "--set "+text, origin{fromFlag, "--set"})
	}
}

// givenByEnvironment returns what the environment gives settings.
func (r *resolution) givenByEnvironment() {
	r.flags.VisitAll(func(f *pflag.Flag) {
		a, ok := f.Value.(aliasValue)
		name := twin(f.Name)
		if text := os.Getenv(name); ok && text != "" {
			r.give(given{a.setting, text, name + "=" + text, origin{fromEnvironment, name}})
		}
	})
	name := twin("set")
	if text := os.Getenv(name); text != "" {
		r.giveSet(text, name+"="+text, origin{fromEnvironment, name})
	}
}
