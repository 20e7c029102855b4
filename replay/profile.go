package replay

import (
	"fmt"

	"github.com/agentx/agentx/replay/preset"
)

// aiperfProfile is the profile of the reconstruction that the presets of AIPerf go with.
const aiperfProfile = "aiperf"

// warnOfProfile warns of prompts and times that follow different tools, and of a switch that only a cache can have.
func (r *run) warnOfProfile() {
	what := ""
	if profile := r.Provenance.Dataset.Profile; profile != "" && (profile == aiperfProfile) != (r.Preset != preset.Default) {
		what = fmt.Sprintf("the cache has the profile %s: times follow the preset, prompts follow the profile", profile)
	}
	if inCache := r.Cache.Facts.Rules.SubtractNegative; inCache != r.Switches.SubtractNegative {
		if what != "" {
			what += ", and "
		}
		word := map[bool]string{false: "zero", true: "subtract"}
		what += fmt.Sprintf("the cache was built with negative-duration %s, which stays in force instead of %s", word[inCache], word[!inCache])
	}
	if what != "" {
		r.reporter.warn(fmt.Sprintf("preset %s: %s", r.Preset, what))
	}
}
