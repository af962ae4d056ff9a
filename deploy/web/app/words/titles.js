// The titles in both languages (docs/RULES.md section 10; libs/doudizhu/titles.py has the same ids).

const TITLES = [
  ["casual_labourer", "短工", "Casual labourer"],
  ["farmhand", "长工", "Farmhand"],
  ["tenant", "佃户", "Tenant"],
  ["poor_peasant", "贫农", "Poor peasant"],
  ["fisher", "渔夫", "Fisher"],
  ["hunter", "猎人", "Hunter"],
  ["middle_peasant", "中农", "Middle peasant"],
  ["rich_peasant", "富农", "Rich peasant"],
  ["shopkeeper", "掌柜", "Shopkeeper"],
  ["merchant", "商人", "Merchant"],
  ["bailiff", "衙役", "Bailiff"],
  ["lesser_proprietor", "小财主", "Lesser proprietor"],
  ["great_proprietor", "大财主", "Great proprietor"],
  ["lesser_landlord", "小地主", "Lesser landlord"],
  ["great_landlord", "大地主", "Great landlord"],
  ["county_magistrate", "知县", "County magistrate"],
  ["vice_prefect", "通判", "Vice prefect"],
  ["prefect", "知府", "Prefect"],
  ["viceroy", "总督", "Viceroy"],
  ["governor", "巡抚", "Governor"],
  ["chancellor", "丞相", "Chancellor"],
  ["emperor", "帝王", "Emperor"],
];

/** title_<id> and title_<name as the servers may write it>, in one language. */
export const titles = (language) =>
  Object.fromEntries(
    TITLES.flatMap(([id, zh, en]) => {
      const text = language === "zh" ? zh : en;
      return [
        [`title_${id}`, text],
        [`title_${zh}`, text],
      ];
    }),
  );
