"""What a row of a query may be: expressions of one row, the functions they may call, and the verdict on a statement.

Every node of a parsed expression and every function called must be known. Functions have lower-case names as the
engines call them. A name is here only if every function of that name is row-wise in its dialect: no aggregate, window
function or maker of several rows, none with a state (random numbers, sequences, variables) and none that reads a table.
Aggregates of a list are functions of the one row that holds the list. What does not change while a statement runs, such
as today's date, is the same for all rows and tells nothing about others.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import Any

from ...budget import Neighbours
from ...errors import PrivacyError

_LONGEST = 80
QUERY = "the query"
"""How errors name what a `Query` holds."""
_DECLARE = (
    "If each row comes from one record all the same, declare it with {}; the certificate then says so, word for word."
)
_QUERY, _SOURCE = "Query(..., one_record_per_row=True) (--one-record-per-row)", "OneRecordPerRow(source)"


class NotUnderstood(Exception):
    """A piece of a statement that is outside the allow-list.

    Args:
        piece: what it is, as the end of the sentence "it has ...".
        hint: another way out than the declaration.
    """

    def __init__(self, piece: str, hint: str = "") -> None:
        self.piece, self.hint = piece, hint
        super().__init__(piece)


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What a statement does, if each of its rows is a function of one row of one table.

    Args:
        sql: the statement written out from what was understood, which is what runs.
        problem: the piece that is not understood; the rest says nothing then.
        hint: another way out than the declaration.
        selects: whether one record may change the number of rows.
        cuts: whether it ends after a number of rows, so that without one record another moves up.
        tables: the tables it reads, as SQL names them.
        files: the files and globs it reads.
        guesses_folders: whether columns of folder names get a type that is guessed from all of them.
        called: the functions it calls, in lower case.
        fields: the names after a dot, which PostgreSQL may take for calls of functions.
    """

    sql: str = ""
    problem: str | None = None
    hint: str = ""
    selects: bool = False
    cuts: bool = False
    tables: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    guesses_folders: bool = False
    called: frozenset[str] = frozenset()
    fields: frozenset[str] = frozenset()

    @property
    def relations(self) -> frozenset[Neighbours]:
        """The neighbours that its rows may be released under; none if it was not understood."""
        return frozenset() if self.problem is not None else relations(self.selects, self.cuts)


def relations(selects: bool, cuts: bool) -> frozenset[Neighbours]:
    """A selection makes the number of rows private; a cut lets another row move up into a gap."""
    found: list[Neighbours] = [] if selects else ["replace-one"]
    return frozenset(found if cuts else [*found, "add-remove"])


def refusal(what: str, refused: NotUnderstood) -> PrivacyError:
    """The error for a source whose rows may depend on more than one record."""
    way = _DECLARE.format(_QUERY if what == QUERY else _SOURCE)
    return PrivacyError(
        f"{what} is refused. It has {refused.piece}; a row may then depend on more than one row of one table. "
        + (f"{refused.hint} {way}" if refused.hint else way)
    )


def shortened(text: str) -> str:
    """A piece of a statement, on one line and not too long."""
    plain = " ".join(text.split())
    return plain if len(plain) <= _LONGEST else plain[: _LONGEST - 3] + "..."


def text_of(node: Any, dialect: str) -> str:
    """A node of a parsed statement, for messages."""
    from sqlglot import ErrorLevel

    return shortened(node.sql(dialect=dialect, comments=False, unsupported_level=ErrorLevel.IGNORE))


# -- comments ----------------------------------------------------------------------------------------------------------


_DOLLARS = re.compile(r"\$(?:[A-Za-z_\x80-\uffff][\w\x80-\uffff]*)?\$")
_NESTED = ("duckdb", "postgres", "spark")


def without_comments(sql: str, dialect: str) -> str:
    """The statement with a space for each comment; texts and quoted names stay as they are.

    Raises:
        NotUnderstood: a text or a comment does not end, or the parser would take something for a template.
    """
    found: list[str] = []
    place = 0
    while place < len(sql):
        letter, two = sql[place], sql[place : place + 2]
        end = place + 1
        if two == "--":
            end = _line_end(sql, place, dialect)
            found.append(" ")
        elif two == "/*":
            end = _block_end(sql, place, dialect)
            found.append(" ")
        else:
            if letter in "'\"`":
                if letter == '"' and re.search(r"\bu&$", sql[:place][-3:], re.IGNORECASE):
                    raise NotUnderstood("a name with escapes")
                end = _quote_end(sql, place, dialect)
            elif letter == "$" and dialect in ("duckdb", "postgres") and (opened := _DOLLARS.match(sql, place)):
                end = _after(sql, opened.group(), opened.end())
            elif two in ("{#", "{%", "{{"):
                raise NotUnderstood("braces that may begin a template", "Put a space between them.")
            found.append(sql[place:end])
        place = end
    return "".join(found)


def _line_end(sql: str, place: int, dialect: str) -> int:
    """A comment of one line. SQLite reads on after a carriage return; in Spark a backslash takes the next line in."""
    ends = re.compile(r"\n" if dialect == "sqlite" else r"[\r\n]")
    while True:
        end = ends.search(sql, place)
        if end is None:
            return len(sql)
        if dialect != "spark" or end.group() != "\n" or sql[end.start() - 1] != "\\":
            return end.start()
        place = end.end()


def _block_end(sql: str, place: int, dialect: str) -> int:
    depth = 0
    for mark in re.finditer(r"/\*|\*/", sql[place:]):
        if mark.group() == "/*":
            depth += 1 if dialect in _NESTED or depth == 0 else 0
        else:
            depth -= 1
        if depth == 0:
            return place + mark.end()
    raise NotUnderstood("a comment that does not end")


def _quote_end(sql: str, place: int, dialect: str) -> int:
    """Quotes are doubled inside; a backslash hides one in Spark, and in E'...' of PostgreSQL and DuckDB."""
    quote = sql[place]
    escaped = dialect == "spark" and quote != "`"
    escaped |= quote == "'" and re.search(r"(?<!\w)e$", sql[:place][-2:], re.IGNORECASE) is not None
    end = place + 1
    while end < len(sql):
        if escaped and sql[end] == "\\":
            end += 2
        elif sql[end] != quote:
            end += 1
        elif sql[end + 1 : end + 2] == quote:
            end += 2
        else:
            return end + 1
    raise NotUnderstood("a quote that does not end")


def _after(sql: str, mark: str, place: int) -> int:
    end = sql.find(mark, place)
    if end < 0:
        raise NotUnderstood("a quote that does not end")
    return end + len(mark)


# -- functions ---------------------------------------------------------------------------------------------------------


def words(text: str) -> list[str]:
    """The words of a text, which is easier to read than a list of them."""
    return text.split()


_EVERYWHERE = words(
    """
    abs acos asin atan atan2 cast ceil ceiling coalesce concat concat_ws cos cot current_date current_time
    current_timestamp degrees exp floor greatest least left length ln log log10 lower lpad ltrim md5 mod nullif
    octet_length pi pow power radians repeat replace reverse right round rpad rtrim sign sin sqrt substr substring
    tan translate trim upper
    """
)

_DUCKDB = words(
    """
    acosh add age ago all any apply array_aggr array_aggregate array_append array_apply array_cat array_concat
    array_contains array_cosine_distance array_cosine_similarity array_cross_product array_distance array_distinct
    array_dot_product array_extract array_filter array_grade_up array_has array_has_all array_has_any array_indexof
    array_inner_product array_intersect array_length array_negative_dot_product array_negative_inner_product
    array_pop_back array_pop_front array_position array_prepend array_push_back array_push_front array_reduce
    array_resize array_reverse array_reverse_sort array_select array_slice array_sort array_to_json array_to_string
    array_transform array_unique array_value array_where array_zip ascii asinh atanh bar base64 bin bit_count
    bit_length bit_position bitstring cardinality cbrt century char_length character_length chr columns contains
    cosh current_localtime current_localtimestamp damerau_levenshtein date_add date_diff date_part date_sub
    date_trunc datediff datepart datesub datetrunc day dayname dayofmonth dayofweek dayofyear days_in_month decade
    decode divide editdist3 element_at encode ends_with epoch epoch_ms epoch_ns epoch_us equi_width_bins era even
    extract factorial fdiv filter flatten fmod format format_bytes formatreadabledecimalsize formatreadablesize
    from_base64 from_binary from_hex from_json from_json_strict gamma gcd get_bit get_current_time
    get_current_timestamp grade_up greatest_common_divisor hamming hash hex hour if ifnull ilike_escape instr
    isfinite isinf isnan isodow isoyear jaccard jaro_similarity jaro_winkler_similarity json json_array
    json_array_length json_contains json_deep_merge json_exists json_extract json_extract_path
    json_extract_path_text json_extract_string json_insert json_keys json_merge_patch json_normalize json_object
    json_pretty json_quote json_remove json_replace json_set json_strip_nulls json_structure json_transform
    json_transform_strict json_type json_valid json_value julian lambda last_day lcase lcm least_common_multiple
    left_grapheme len length_grapheme levenshtein lgamma like_escape list_aggr list_aggregate list_any_value
    list_append list_apply list_approx_count_distinct list_avg list_bit_and list_bit_or list_bit_xor list_bool_and
    list_bool_or list_cat list_concat list_contains list_cosine_distance list_cosine_similarity list_count
    list_distance list_distinct list_dot_product list_element list_entropy list_extract list_filter list_first
    list_grade_up list_has list_has_all list_has_any list_histogram list_indexof list_inner_product list_intersect
    list_kurtosis list_kurtosis_pop list_last list_mad list_max list_median list_min list_mode
    list_negative_dot_product list_negative_inner_product list_pack list_position list_prepend list_product
    list_reduce list_resize list_reverse list_reverse_sort list_select list_sem list_skewness list_slice list_sort
    list_stddev_pop list_stddev_samp list_string_agg list_sum list_transform list_unique list_value list_var_pop
    list_var_samp list_where list_zip localtime localtimestamp log2 make_date make_time make_timestamp
    make_timestamp_ms make_timestamp_ns make_timestamptz map map_concat map_contains map_contains_entry
    map_contains_value map_entries map_extract map_extract_value map_from_entries map_keys map_values md5_number
    md5_number_lower md5_number_upper microsecond millennium millisecond minute mismatches month monthname multiply
    nanosecond nextafter nfc_normalize normalized_interval not_ilike_escape not_like_escape now ord overlay
    parquet_scan parse_dirname parse_dirpath parse_filename parse_formatted_bytes parse_path path_join position
    prefix printf quarter read_csv read_csv_auto read_json read_json_auto read_ndjson read_parquet reduce
    regexp_escape regexp_extract regexp_extract_all regexp_full_match regexp_matches regexp_replace
    regexp_split_to_array right_grapheme round_even roundbankers row row_to_json second set_bit sha1 sha256 signbit
    sinh some split split_part starts_with str_split str_split_regex strftime string_split string_split_regex
    string_to_array strip_accents strlen strpos strptime struct_concat struct_contains struct_extract
    struct_extract_at struct_has struct_indexof struct_insert struct_keys struct_pack struct_position struct_update
    struct_values substring_grapheme subtract suffix switch tanh time_bucket timezone timezone_hour timezone_minute
    to_base to_base64 to_binary to_centuries to_days to_decades to_hex to_hours to_json to_microseconds to_millennia
    to_milliseconds to_minutes to_months to_quarters to_seconds to_timestamp to_weeks to_years today
    transaction_timestamp trunc try try_cast try_strptime typeof ucase unbin unhex unicode union_extract union_tag
    union_value url_decode url_encode uuid_extract_timestamp uuid_extract_version variant_extract week weekday
    weekofyear xor year yearweek
    """
)

_POSTGRES = words(
    """
    acosd acosh age all any array array_dims array_fill array_length array_lower array_ndims array_position
    array_positions array_remove array_replace array_to_json array_to_string array_upper ascii asind asinh atan2d
    atand atanh bit_count bit_length bool btrim cardinality cbrt char_length character_length chr convert
    convert_from convert_to cosd cosh cotd date date_bin date_part date_trunc daterange decode div encode extract
    factorial family float4 float8 format gcd get_bit get_byte hashtext hashtextextended host hostmask initcap int2
    int4 int4range int8 int8range interval isempty isfinite json_array_length json_build_array json_build_object
    json_extract_path json_extract_path_text json_object json_strip_nulls json_typeof jsonb_array_length
    jsonb_build_array jsonb_build_object jsonb_extract_path jsonb_extract_path_text jsonb_insert jsonb_object
    jsonb_path_exists jsonb_path_match jsonb_path_query_array jsonb_path_query_first jsonb_pretty jsonb_set
    jsonb_set_lax jsonb_strip_nulls jsonb_typeof justify_days justify_hours justify_interval lcm localtime
    localtimestamp lower_inc lower_inf make_date make_interval make_time make_timestamp make_timestamptz masklen
    min_scale netmask network normalize now num_nonnulls num_nulls numeric numrange overlaps overlay parse_ident
    phraseto_tsquery plainto_tsquery position quote_ident quote_literal quote_nullable range_merge regexp_count
    regexp_instr regexp_like regexp_match regexp_replace regexp_split_to_array regexp_substr row row_to_json scale
    sha224 sha256 sha384 sha512 sind sinh some split_part starts_with statement_timestamp string_to_array strpos
    tand tanh text timestamp timestamptz timezone to_ascii to_char to_date to_hex to_json to_jsonb to_number
    to_timestamp to_tsquery to_tsvector transaction_timestamp trim_array trim_scale trunc ts_rank ts_rank_cd tsrange
    tstzrange unistr upper_inc upper_inf varchar websearch_to_tsquery width_bucket xpath xpath_exists
    """
)

_SQLITE = words(
    """
    acosh asinh atanh char concat concat_ws cosh date datetime format glob hex ifnull iif instr json json_array
    json_array_length json_extract json_insert json_object json_patch json_quote json_remove json_replace json_set
    json_type json_valid julianday like likelihood likely log2 max min printf quote sinh soundex strftime tanh time
    timediff trunc typeof unhex unicode unixepoch unlikely zeroblob
    """
)

_SPARK = words(
    """
    acosh add_months aggregate array array_append array_compact array_contains array_distinct array_except
    array_insert array_intersect array_join array_max array_min array_position array_prepend array_remove
    array_repeat array_size array_sort array_union arrays_overlap arrays_zip ascii asinh atanh base64 bigint bin
    binary bit_count bit_get bit_length boolean bround btrim cardinality cbrt char char_length character_length chr
    collate contains conv convert_timezone cosh crc32 csc curdate current_timezone date date_add date_diff
    date_format date_from_unix_date date_part date_sub date_trunc dateadd datediff datepart day dayname dayofmonth
    dayofweek dayofyear decimal decode div double e element_at elt encode endswith equal_null exists expm1 extract
    factorial filter find_in_set flatten float forall format_number format_string from_base32 from_csv from_json
    from_unixtime from_utc_timestamp from_xml get get_json_object getbit hash hex hour hypot if ifnull ilike initcap
    instr int is_valid_utf8 isnan isnotnull isnull jaro_winkler_similarity json_array_length json_object_keys
    last_day lcase len levenshtein like localtime localtimestamp locate log1p log2 luhn_check make_date
    make_dt_interval make_interval make_time make_timestamp make_timestamp_ltz make_timestamp_ntz make_valid_utf8
    make_ym_interval map map_concat map_contains_key map_entries map_filter map_from_arrays map_from_entries
    map_keys map_values map_zip_with mask minute month monthname months_between named_struct nanvl negative next_day
    not now nullifzero nvl nvl2 overlay parse_json parse_url pmod position positive printf quarter quote reduce
    regexp regexp_count regexp_extract regexp_extract_all regexp_instr regexp_like regexp_replace regexp_substr rint
    rlike sec second sentences sequence sha sha1 sha2 shiftleft shiftright shiftrightunsigned signum sinh size slice
    smallint sort_array soundex space split split_part startswith str_to_map string struct substring_index tanh
    time_bucket timestamp timestamp_micros timestamp_millis timestamp_seconds timestampadd timestampdiff tinyint
    to_base32 to_binary to_char to_csv to_date to_json to_number to_time to_timestamp to_timestamp_ltz
    to_timestamp_ntz to_unix_timestamp to_utc_timestamp to_varchar to_xml transform transform_keys transform_values
    trunc try_add try_cast try_divide try_element_at try_mod try_multiply try_parse_json try_subtract try_to_binary
    try_to_date try_to_number try_to_timestamp try_url_decode try_variant_get typeof ucase unbase64 unhex unix_date
    unix_micros unix_millis unix_seconds unix_timestamp url_decode url_encode validate_utf8 variant_get weekday
    weekofyear when width_bucket xpath xpath_boolean xpath_double xpath_float xpath_int xpath_long xpath_number
    xpath_short xpath_string xxhash64 year zeroifnull zip_with
    """
)

ROW_WISE: dict[str, frozenset[str]] = {
    "duckdb": frozenset(_EVERYWHERE + _DUCKDB),
    "postgres": frozenset(_EVERYWHERE + _POSTGRES),
    "sqlite": frozenset(_EVERYWHERE + _SQLITE)
    - {"md5", "repeat", "reverse", "translate", "lpad", "rpad", "left", "right"},
    "spark": frozenset(_EVERYWHERE + _SPARK),
}
"""By dialect, the functions that may be called."""


# -- expressions -------------------------------------------------------------------------------------------------------


_NODES = frozenset(
    words(
        """
        Add Alias AtTimeZone Between BitString BitwiseAnd BitwiseLeftShift BitwiseNot BitwiseOr BitwiseRightShift
        BitwiseXor Boolean Bracket ByteString Column ColumnDef Comprehension DPipe DataType DataTypeParam Distance Div
        Dot EQ Escape FormatJson FromTimeZone GT GTE Glob Heredoc HexString ILike Identifier In IntDiv Interval
        IntervalSpan Is JSON JSONKeyValue JSONPath JSONPathKey JSONPathRecursive JSONPathRoot JSONPathSelector
        JSONPathSlice JSONPathSubscript JSONPathUnion JSONPathWildcard Kwarg LT LTE Lambda Like Literal Mod Mul NEQ
        National Neg Not Null NullSafeEQ NullSafeNEQ Order Ordered Overlaps Paren PropertyEQ RawString SimilarTo Slice
        Star Sub Tuple UnicodeString Var
        """
    )
)
"""Nodes that are no functions. A node that may hold a query, a window or a parameter is not among them."""
_OWN_SYNTAX = frozenset(
    words(
        """
        And Array ArrayContainedBy ArrayContains ArrayContainsAll ArrayOverlaps Case Cast Ceil Coalesce Collate Columns
        CurrentDate CurrentTime CurrentTimestamp CurrentTimestampLTZ Date Extract Floor If JSONArrayContains
        JSONBContains JSONBContainsAllTopKeys JSONBContainsAnyTopKeys JSONBContainsTopKey JSONBDeleteAtPath JSONBExtract
        JSONBExtractScalar JSONBPathExists JSONExtract JSONExtractScalar Localtime Localtimestamp Map Or Pow
        RegexpFullMatch RegexpILike RegexpLike Space StartsWith StrPosition Struct ToMap TryCast Xor
        """
    )
)
"""Functions that are not written as a name and parentheses."""
_LISTS_ONLY = frozenset({"Any", "All"})
"""`= ANY(list)`, in PostgreSQL and DuckDB; in Spark ANY is an aggregate."""
_REFUSED = {
    "Select": "a subquery in an expression",
    "Subquery": "a subquery in an expression",
    "Exists": "a subquery in an expression",
    "Union": "a subquery in an expression",
    "Window": "a window function",
    "Filter": "an aggregate",
    "WithinGroup": "an aggregate",
    "IgnoreNulls": "an aggregate",
    "Distinct": "DISTINCT",
    "Placeholder": "a parameter",
    "Parameter": "a parameter",
    "SessionParameter": "a variable",
    "Pseudocolumn": "a pseudo-column",
    "PositionalColumn": "a column by its position",
}
_PSEUDO = {
    "duckdb": {"rowid", "file_row_number", "file_index"},
    "sqlite": {"rowid", "oid", "_rowid_"},
    "postgres": {"ctid", "xmin", "xmax", "cmin", "cmax", "tableoid"},
    "spark": {"_metadata"},
}
"""Columns that tell the place of a row among the others."""
_COLLATIONS = ("binary", "nocase", "rtrim")
_AGGREGATES_OF_A_ROW = frozenset(
    words("count array_agg json_agg jsonb_agg json_agg_strict jsonb_agg_strict any_value min max")
)
"""In PostgreSQL t.count is count(t) where t has no such column."""
_WORDS = frozenset(
    words(
        """
        all and array as between bit by case char character decimal distinct div else end enum escape except exclude
        float from glob ilike in interval is lambda like limit map materialized not null numeric offset on only or
        rename replace rlike select similar struct then time timestamp timestamptz to union using values varchar when
        where with xor
        """
    )
)
"""Words of SQL, and types, that may stand before a parenthesis. Some of their clauses are refused elsewhere."""


def check_row_wise(node: Any, dialect: str, *, written_out: bool) -> None:
    """Refuse an expression that may be more than a function of its row."""
    from sqlglot import exp

    for each in node.walk():
        kind = type(each).__name__
        if kind in _NODES:
            _check_name(each, dialect)
            continue
        if kind in _LISTS_ONLY and (dialect in ("postgres", "duckdb") or is_like_any(each)):
            continue
        if kind == "Exists" and dialect == "spark" and not isinstance(each.this, exp.Query):
            continue  # of a list and a condition
        if dialect == "sqlite" and kind in ("RegexpLike", "Match"):
            raise NotUnderstood(f"{text_of(each, dialect)}, which calls a function that SQLite does not have by itself")
        if dialect == "sqlite" and kind == "Collate" and each.expression.name.lower() not in _COLLATIONS:
            raise NotUnderstood(f"the collation in {text_of(each, dialect)}")
        if kind == "Collate" and "." in each.expression.sql(dialect=dialect):
            raise NotUnderstood(f"the collation in {text_of(each, dialect)}")
        if isinstance(each, (exp.AggFunc, exp.AnonymousAggFunc)):
            raise NotUnderstood(f"the aggregate {text_of(each, dialect)}")
        if isinstance(each, exp.Func) and not isinstance(each, exp.UDTF) and kind not in _REFUSED:
            if written_out and kind not in _OWN_SYNTAX:
                _check_call(each, dialect)
            continue
        what = _REFUSED.get(kind, "what this library does not know")
        raise NotUnderstood(f"{what}: {text_of(each, dialect)}")


def is_like_any(node: Any) -> bool:
    """Whether it is the list of `LIKE ANY ('a%', 'b%')`."""
    return type(node).__name__ in _LISTS_ONLY and type(node.parent).__name__ in ("Like", "ILike")


def _check_name(node: Any, dialect: str) -> None:
    from sqlglot import exp

    kind = type(node).__name__
    if kind == "In" and node.args.get("field") is not None and dialect != "duckdb":
        raise NotUnderstood(f"a table after IN: {text_of(node, dialect)}")
    if kind == "DataType" and node.this in (exp.DType.USERDEFINED, exp.DType.UNKNOWN):
        raise NotUnderstood(
            f"the type {text_of(node, dialect)}, which is none of the engine", "Compare or cast the text instead."
        )
    if kind == "Column":
        name, qualified = node.name.lower(), bool(node.args.get("table"))
        if dialect == "spark" and {"_metadata", "session"} & {part.name.lower() for part in node.parts}:
            raise NotUnderstood(f"{text_of(node, dialect)}, which is no column of the table")
    elif kind == "Dot":
        name, qualified = node.expression.name.lower(), True
        if isinstance(node.expression, exp.Func) and _may_be_schema(node, dialect):
            raise NotUnderstood(
                f"the function {text_of(node, dialect)}, which may not be one of the engine", "Write it as f(x)."
            )
    else:
        return
    if name in _PSEUDO.get(dialect, ()):
        raise NotUnderstood(f"the pseudo-column {name}, which tells the place of a row among the others")
    if dialect == "postgres" and qualified and name in _AGGREGATES_OF_A_ROW:
        raise NotUnderstood(
            f"{text_of(node, dialect)}, which may be a call of {name}",
            "If it is a column, write it without the table before it.",
        )


def _may_be_schema(node: Any, dialect: str) -> bool:
    """DuckDB has x.f() for f(x); with a plain x and arguments it looks like a function of the schema x."""
    if dialect == "duckdb":
        return type(node.this).__name__ == "Identifier" and any(True for _ in node.expression.iter_expressions())
    return not (dialect == "postgres" and node.this.name.lower() == "pg_catalog")


def _check_call(node: Any, dialect: str) -> None:
    text = _written(node, dialect)
    name = text.partition("(")[0].strip().strip('"`').lower()
    if any(_written(each, dialect) == text for each in node.iter_expressions()):
        return  # a mark of the parser that is not written
    if "(" not in text or name not in ROW_WISE[dialect]:
        raise NotUnderstood(f"the function {shortened(text)}, which is not known to be one of its row alone")


def _written(node: Any, dialect: str) -> str:
    from sqlglot import ErrorLevel

    return str(node.sql(dialect=dialect, comments=False, unsupported_level=ErrorLevel.IGNORE))


def called_names(sql: str, dialect: str) -> Counter[str]:
    """Every name that stands before an opening parenthesis in a statement, as the engine will read it.

    Raises:
        NotUnderstood: a name is in quotes or has letters whose lower case depends on who asks.
    """
    from sqlglot import tokenize

    found: Counter[str] = Counter()
    tokens = tokenize(sql, read=dialect)
    for number, token in enumerate(tokens[:-1]):
        if tokens[number + 1].token_type.name != "L_PAREN" or token.token_type.name in ("STRING", "NUMBER"):
            continue
        quoted = token.token_type.name == "IDENTIFIER"
        if not quoted and not token.text.replace("_", "a").isalnum():
            continue  # an operator or a parenthesis
        if number and tokens[number - 1].token_type.name == "ALIAS":
            continue  # CAST(x AS DECIMAL(3, 1)), t AS t(a, b)
        if quoted or not token.text.isascii():
            raise NotUnderstood(f"the function {shortened(token.text)}(...), whose name is in quotes or not in ASCII")
        found[token.text.lower()] += 1
    return found


def check_names(names: Counter[str], dialect: str, declared: Counter[str]) -> None:
    """Refuse names that are neither words of SQL nor functions of a row, nor aliases with columns."""
    for name, times in names.items():
        if name in ROW_WISE[dialect] or name in _WORDS or times <= declared[name]:
            continue
        raise NotUnderstood(f"the function {shortened(name)}(...), which is not known to be one of its row alone")


def fields(node: Any) -> frozenset[str]:
    """The names after a dot."""
    from sqlglot import exp

    columns = {each.name for each in node.find_all(exp.Column) if each.args.get("table")}
    return frozenset(columns | {each.expression.name for each in node.find_all(exp.Dot)})
