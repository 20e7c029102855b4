package main

import (
	"fmt"

	"github.com/spf13/pflag"
)

// aliasValue is the value of a flag that sets a setting: the text, which is read with all others.
type aliasValue struct {
	setting *setting
	text    *string
}

// Set sets the text. A list grows with every flag.
func (a aliasValue) Set(text string) error {
	if a.setting.kind.list && *a.text != "" {
		text = *a.text + "," + text
	}
	*a.text = text
	return nil
}

func (a aliasValue) Type() string { return a.setting.kind.flag }

func (a aliasValue) String() string {
	switch {
	case a.text == nil: // pflag makes zero values
		return ""
	case *a.text != "":
		return *a.text
	case a.setting.auto, a.setting.kind.list:
		return ""
	case a.setting.value == nil, a.setting.value == false:
		return "0"
	}
	return fmt.Sprint(a.setting.value)
}

// registerAliases registers the flags of those settings that a command has; nil: of all.
func registerAliases(flags *pflag.FlagSet, has func(*setting) bool) {
	for k := range settings {
		if s := &settings[k]; s.alias != "" && (has == nil || has(s)) {
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
