package replay_test

import (
	"reflect"
	"slices"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/internal/cachetest"
	"github.com/agentx/agentx/internal/settings"
	"github.com/agentx/agentx/replay"
	"github.com/agentx/agentx/replay/preset"
)

// Options of a caller who names a preset, and nothing else, are those of the command under the same preset: every setting has its value
// from one table.
func TestPresetsOfCallersAreThoseOfTheCommand(t *testing.T) {
	c := cachetest.Demo(t)
	for _, name := range slices.Concat(preset.Names, []string{"agentx-v1.0.5"}) {
		command := replay.Options{Cache: c}
		rows := settings.Replay(&command)
		s := settings.New(pflag.NewFlagSet("", pflag.ContinueOnError), func(err error, _ string) { require.NoError(t, err) }, rows...)
		s.Presets, s.Canonical = preset.Names, preset.Canonical
		s.Add(settings.Setting{Name: "preset", Kind: settings.AnyText, Default: preset.Default, To: &command.Preset})
		require.NoError(t, s.Flags.Set("preset", name))
		s.Settle()
		command.Calibrate = false // which a command asks for, and a caller does not
		want, got := reflect.New(reflect.TypeFor[replay.Options]()).Elem(), reflect.New(reflect.TypeFor[replay.Options]()).Elem()
		want.Set(reflect.ValueOf(replay.WithDefaults(command)))
		got.Set(reflect.ValueOf(replay.WithDefaults(replay.Options{Cache: c, Preset: name})))
		require.NotEmpty(t, rows)
		for k := range want.NumField() {
			field := want.Type().Field(k)
			if !field.IsExported() || field.Type.Kind() == reflect.Func {
				continue
			}
			if field.Name == "Fields" && want.Field(k).FieldByName("Extra").Len() == 0 {
				want.Field(k).FieldByName("Extra").SetZero()
			}
			require.Equal(t, want.Field(k).Interface(), got.Field(k).Interface(), "%s under %s", field.Name, name)
		}
		for _, row := range rows { // what the rows show is what they write
			shown, ok := row.Under[canonical(name)]
			if !ok {
				shown = row.Default
			}
			if !row.Auto && row.To != nil && row.Apply == nil && row.None == nil && shown != nil {
				to := reflect.Indirect(reflect.ValueOf(row.To).Elem())
				require.EqualValues(t, reflect.ValueOf(shown).Convert(to.Type()).Interface(), to.Interface(), "%s under %s", row.Name, name)
			}
		}
	}
}

func canonical(name string) string {
	name, _ = preset.Canonical(name)
	return name
}
