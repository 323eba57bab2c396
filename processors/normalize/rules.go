package normalize

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/idlewatt/idlewatt/processors/store"
)

// Rules say which tags name the project, team and environment of a charge. The first key
// that a charge has wins. Keys are taken as written: AWS tells Team from team; Azure's keys
// are stored in lower case, as Azure has no case in them.
type Rules struct {
	Project     []string `yaml:"project"`
	Team        []string `yaml:"team"`
	Environment []string `yaml:"environment"`
}

// DefaultRules serve until somebody states their own.
func DefaultRules() Rules {
	return Rules{
		Project:     []string{"tag:project", "tag:Project"},
		Team:        []string{"tag:team", "tag:Team"},
		Environment: []string{"tag:environment", "tag:Environment", "tag:env", "tag:Env"},
	}
}

// Validate reports every rule that cannot be read.
func (r Rules) Validate() error {
	var errs []error
	for name, list := range map[string][]string{"project": r.Project, "team": r.Team, "environment": r.Environment} {
		for i, s := range list {
			if key, ok := strings.CutPrefix(s, "tag:"); !ok || key == "" {
				errs = append(errs, fmt.Errorf("dimensions.%s[%d]: %q: want tag:KEY", name, i, s))
			}
		}
	}
	return errors.Join(errs...)
}

// pick is the SQL of the first tag that is present, and of the rule that found it.
func pick(rules []string) (value, rule string) {
	if len(rules) == 0 {
		return "CAST(NULL AS Nullable(String))", "CAST(NULL AS Nullable(String))"
	}
	var v, w []string
	for _, r := range rules {
		key := strings.TrimPrefix(r, "tag:")
		has := "Tags[" + literal(key) + "] != ''"
		v = append(v, has+", Tags["+literal(key)+"]")
		w = append(w, has+", "+literal(r))
	}
	return "multiIf(" + strings.Join(v, ", ") + ", NULL)", "multiIf(" + strings.Join(w, ", ") + ", NULL)"
}

func (r Rules) dims(from string, version uint64) string {
	project, how := pick(r.Project)
	team, _ := pick(r.Team)
	env, _ := pick(r.Environment)
	return fmt.Sprintf(`INSERT INTO idlewatt_store.tag_dims (TagSet, RuleVersion, Project, Team, Environment, TagSource)
SELECT TagSet, %d, %s, %s, %s, %s FROM %s`, version, project, team, env, how, from)
}

// ApplyRules gives every tag set of the loads from..to its dimensions. It runs before the
// commit, so that a charge never shows without them.
func (p *Processor) ApplyRules(ctx context.Context, from, to uint64) error {
	err := p.db.Exec(ctx, `INSERT INTO idlewatt_store.tag_sets (TagSet, Tags, SubAccountId)
SELECT x_TagSet, any(Tags), any(ifNull(SubAccountId, '')) FROM idlewatt_store.charges WHERE x_Load >= ? AND x_Load < ?
    AND x_TagSet NOT IN (SELECT TagSet FROM idlewatt_store.tag_sets) GROUP BY x_TagSet`, from, to)
	if err != nil {
		return fmt.Errorf("gathering tag sets: %w", err)
	}
	missing := "(SELECT * FROM idlewatt_store.tag_sets FINAL WHERE TagSet NOT IN (SELECT TagSet FROM idlewatt_store.tag_dims))"
	if err := p.db.Exec(ctx, p.Rules.dims(missing, p.Loads.Next())); err != nil {
		return fmt.Errorf("applying dimension rules: %w", err)
	}
	return nil
}

// RulesInForce returns the rules that the last running instance was configured with, or the
// default ones: an import by hand goes by them too.
func RulesInForce(ctx context.Context, db *store.DB) (Rules, error) {
	var text string
	if err := db.QueryRow(ctx, "SELECT argMax(Value, Version) FROM idlewatt_store.meta WHERE Key = 'dimension_rules'").Scan(&text); err != nil {
		return Rules{}, fmt.Errorf("reading the rules in force: %w", err)
	}
	if text == "" {
		return DefaultRules(), nil
	}
	var r Rules
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		return Rules{}, fmt.Errorf("reading the rules in force: %w", err)
	}
	return r, nil
}

// ReapplyRules brings the dimensions of every tag set to the configured rules if they have
// changed since the last start. Bills are not touched.
func (p *Processor) ReapplyRules(ctx context.Context) error {
	have, err := RulesInForce(ctx, p.db)
	if err != nil {
		return err
	}
	want, err := json.Marshal(p.Rules)
	if err != nil {
		return fmt.Errorf("writing dimension rules: %w", err)
	}
	if was, err := json.Marshal(have); err == nil && string(was) == string(want) {
		return nil
	}
	if err := p.db.Exec(ctx, p.Rules.dims("(SELECT * FROM idlewatt_store.tag_sets FINAL)", p.Loads.Next())); err != nil {
		return fmt.Errorf("applying dimension rules: %w", err)
	}
	if err := p.db.Exec(ctx, "INSERT INTO idlewatt_store.meta (Key, Value) VALUES ('dimension_rules', ?)", string(want)); err != nil {
		return fmt.Errorf("recording the rules in force: %w", err)
	}
	return nil
}
