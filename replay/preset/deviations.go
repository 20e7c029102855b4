package preset

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Deviations are switches that differ from a preset, as JSON by name. They are read by the names of before, too.
type Deviations map[string]json.RawMessage

// UnmarshalJSON reads them as results have them.
func (d *Deviations) UnmarshalJSON(text []byte) error {
	var list map[string]json.RawMessage
	if err := json.Unmarshal(text, &list); err != nil || list == nil {
		return err
	}
	*d = Deviations{}
	for name, value := range list {
		(*d)[Renamed(name)] = value
	}
	return nil
}

// Deviations returns the switches whose values differ from those of a preset. It is never nil.
func (s Switches) Deviations(preset string) Deviations {
	base, _ := Named(preset) // an unknown one has no values
	same, list := base.values(), s.values()
	maps.DeleteFunc(list, func(name string, value json.RawMessage) bool { return bytes.Equal(value, same[name]) })
	return list
}

// values returns all switches as JSON by name.
func (s Switches) values() Deviations {
	list := Deviations{}
	for _, x := range s.List() {
		list[x.Name], _ = json.Marshal(x.value()) // words, numbers and truth values always marshal
	}
	return list
}

// MarshalJSON returns all switches by name.
func (s Switches) MarshalJSON() ([]byte, error) { return json.Marshal(s.values()) }

// Recorded returns the switches of a preset with deviations, as Deviations gave them. "" is the preset default.
func Recorded(preset string, deviations Deviations) (s Switches, err error) {
	s, ok := Named(cmp.Or(preset, Default))
	if !ok {
		return s, fmt.Errorf("preset %q: want one of %s", preset, strings.Join(Names, ", "))
	}
	all := s.List()
	for _, name := range slices.Sorted(maps.Keys(deviations)) {
		k := slices.IndexFunc(all, func(x Switch) bool { return x.Name == name })
		if err = fmt.Errorf("json: unknown field %q", name); k >= 0 {
			err = all[k].UnmarshalJSON(deviations[name])
		}
		if err != nil {
			return s, fmt.Errorf("switches of preset %s: %w", cmp.Or(preset, Default), err)
		}
	}
	return s, nil
}
