package replay

import (
	"fmt"
	"net/url"
	"os"

	"github.com/agentx/agentx/replay/preset"
)

// filesBesideLanes is how many files a run has open beside a connection for each lane: results, pages of metrics, the cache, and those who
// look at it.
const filesBesideLanes = 64

// machine is what a machine lets a process have. 0: that is not known, or there is no bound.
type machine struct {
	files int // open at a time
	ports int // towards one address
}

// portRange is where Linux says which ports connections get.
const portRange = "/proc/sys/net/ipv4/ip_local_port_range"

// thisMachine returns what the process may have. It raises the limit of open files where fewer than a run wants are allowed.
func thisMachine(lanes int) machine {
	text, _ := os.ReadFile(portRange) // other systems have no such file
	return machine{files: openFiles(lanes + filesBesideLanes), ports: portsIn(string(text))}
}

// portsIn returns how many ports a range has, such as "32768 60999"; 0 if it is none.
func portsIn(text string) int {
	var first, last int
	if _, err := fmt.Sscan(text, &first, &last); err != nil || first < 1 || last < first || last > 65535 {
		return 0
	}
	return last - first + 1
}

// shortfalls says what a run wants that the machine does not let it have: requests would fail with the category internal, and the run
// would be bound by its client. whole is the load of which part is played here.
func (m machine) shortfalls(part, whole *Options) (list []string) {
	if want := part.Concurrency + filesBesideLanes; m.files > 0 && want > m.files {
		list = append(list, fmt.Sprintf("%d lanes want a connection each, with other files %d, and this process may open %d: requests will fail on this machine; raise its limit (ulimit -n %d, also the hard one), or play fewer lanes",
			part.Concurrency, want, m.files, want))
	}
	if m.ports == 0 {
		return list
	}
	host, share := busiestHost(part.URLs)
	advice := "widen net.ipv4.ip_local_port_range, give more " + preset.Setting("url") + ", or play parts on machines of their own"
	switch own, all := (part.Concurrency*share+len(part.URLs)-1)/len(part.URLs), (whole.Concurrency*share+len(part.URLs)-1)/len(part.URLs); {
	case own > m.ports:
		list = append(list, fmt.Sprintf("%d lanes want a connection each to %s, and this machine has %d ports for one address: requests will fail on this machine; %s", own, host, m.ports, advice))
	case part.Part.several() && all > m.ports:
		list = append(list, fmt.Sprintf("the %d parts of this load want %d connections to %s, and this machine has %d ports for one address: if they share it, requests will fail on this machine; %s", part.Part.Of, all, host, m.ports, advice))
	}
	return list
}

// busiestHost returns the host and port that most of some URLs name, and how many.
func busiestHost(urls []string) (host string, share int) {
	count := map[string]int{}
	for _, text := range urls {
		if u, err := url.Parse(text); err == nil {
			if count[u.Host]++; count[u.Host] > share {
				host, share = u.Host, count[u.Host]
			}
		}
	}
	return host, share
}

// warnOfLimits warns of what the machine does not let the run have.
func (r *run) warnOfLimits() {
	for _, text := range thisMachine(r.Concurrency).shortfalls(&r.Options, &r.whole) {
		r.reporter.warn(text)
	}
}

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
