package corpus

import "strings"

// The inflections of regular English nouns and verbs. Those of a phrase change its last word.

func plural(s string) string {
	switch {
	case endsIn(s, "s", "x", "z", "ch", "sh"):
		return s + "es"
	case consonantY(s):
		return s[:len(s)-1] + "ies"
	}
	return s + "s"
}

func past(s string) string {
	switch {
	case strings.HasSuffix(s, "e"):
		return s + "d"
	case consonantY(s):
		return s[:len(s)-1] + "ied"
	}
	if irregular := irregularPast[s]; irregular != "" {
		return irregular
	}
	return doubled(s) + "ed"
}

func ing(s string) string {
	if strings.HasSuffix(s, "e") && !strings.HasSuffix(s, "ee") {
		return s[:len(s)-1] + "ing"
	}
	return doubled(s) + "ing"
}

// an puts the indefinite article before a phrase.
func an(s string) string {
	if s != "" && strings.IndexByte("aeio", s[0]) >= 0 || strings.HasPrefix(s, "u") && !strings.HasPrefix(s, "un") && !strings.HasPrefix(s, "us") {
		return "an " + s
	}
	return "a " + s
}

var irregularPast = map[string]string{"cast": "cast", "drive": "driven", "feed": "fed", "grind": "ground", "hold": "held", "wind": "wound", "withstand": "withstood"}

// doubled repeats the last letter where the ending of a verb asks for it.
func doubled(s string) string {
	switch s {
	case "strip", "drop", "stop", "trim", "refuel", "drag", "scrub":
		return s + s[len(s)-1:]
	}
	return s
}

func consonantY(s string) bool {
	return len(s) > 1 && s[len(s)-1] == 'y' && !strings.ContainsRune("aeiou", rune(s[len(s)-2]))
}

func endsIn(s string, endings ...string) bool {
	for _, e := range endings {
		if strings.HasSuffix(s, e) {
			return true
		}
	}
	return false
}
