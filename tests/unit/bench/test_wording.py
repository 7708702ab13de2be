"""Broken texts are told from good ones, and good ones in any language are left alone."""

from __future__ import annotations

import pytest

from harness.bench.wording import degenerate, trailing_loop

GOOD = {
    "english": "Bears sleep in winter. They wake in spring, and they are hungry then.",
    "short": "Paris.",
    "one-letter": "B",
    "chinese": "熊在冬天睡觉。春天醒来的时候，它们很饿，会去找吃的东西。使用Python写代码也可以。",
    "japanese": "クマは冬に眠ります。春になると起きて、とてもお腹がすいています。CPUとGPUの違いは何ですか。",
    "korean": "곰은 겨울에 잠을 잡니다. 봄에 깨어나면 배가 고픕니다. 韓國語 漢字.",
    "arabic": "تنام الدببة في الشتاء وتستيقظ في الربيع وهي جائعة.",
    "hebrew": "דובים ישנים בחורף. באביב הם מתעוררים רעבים.",
    "russian": "Медведи спят зимой. Весной они просыпаются голодными. Это Wi-Fi и USB-C.",
    "hindi": "भालू सर्दियों में सोते हैं। वसंत में वे भूखे जागते हैं।",
    "thai": "หมีนอนหลับในฤดูหนาว เมื่อตื่นขึ้นในฤดูใบไม้ผลิพวกมันหิวมาก",
    "greek": "Οι αρκούδες κοιμούνται τον χειμώνα. Για παράδειγμα: sinθ, Δx, 5μm, λx.",
    "hello-in-many": "Hello, 你好, مرحبا, Привет, नमस्ते, こんにちは, สวัสดี, 안녕, שלום, Γειά, Բարեւ",
    "dictionary": "bear (медведь, 熊, دب, ursus), winter (зима, 冬, شتاء), spring (весна, 春, ربيع)",
    "emoji": "😀😃😄😁😆😅😂🤣😊😇🙂🙃😉😌😍🥰🫠🪿",
    "code": "def add(a, b):\n    return a + b\n\n\nfor i in range(10):\n    print(i, add(i, i))\n",
    "symbols": "if (((a && b) || (c && d)) != ((e << 2) | (f >> 3))) { x[i][j] += *p++; }",
    "json": '{"a": [0, 0, 0, 0, 0, 0, 0, 0, 0, 0], "b": {"c": null, "d": [true, true, true]}}',
    "table": "| bear | berry |\n| ---- | ----- |\n| 1 | 2 |\n| 3 | 4 |",
    "numbers": "1000000000000000000000",
    "pi": "3.14159265358979323846264338327950288419716939937510",
    "list": "1. bear\n2. bear\n3. bear\n4. bear",
    "laughter": "Ha ha ha ha! That is a good one, tell me another.",
    "ruler": "Bears\n========================================\nSleep",
    "matrix": "1 0 0 0\n0 1 0 0\n0 0 1 0\n0 0 0 1",
    "cut-within-a-character": "熊在冬天\ufffd",
    "loop-in-the-middle": "He cried no no no no no no no, and then he went away over the hills and far, far away.",
    "math": r"\frac{a}{b} = \sqrt{x^2 + y^2} \leq \sum_{i=0}^{n} \alpha_i",
    "cut-code": "#include <map>\nint main() {\n  std::map<int, int> m;\n  for (auto& [k, v] : m) { if (k <",
    "shell": 'for f in *.txt; do\n  grep -c \'^#\' "$f" | sort -n | tail -1 \\\n    > "$f.out" ; done # ok',
    "latex-cut": r"\begin{align} a_{i} &= \left( b_{i} \ \right) \\ c &= \frac{",
    "characters": "The character 人 means person, 山 means mountain, and 水 means water. 大 is big, 小 is small.",
    "smileys": "Hi :) :( ;) 1) bears 2) wolves 3) birds a) b) c)",
    "regex": r"^\s*([a-z_]\w*)\s*=\s*(\[.*\]|\{.*\})\s*$",
    "tree": "a\n|-- b\n|   |-- c\n|   `-- d\n`-- e",
    "phonetics": "The word is spoken /ˈbɛə/ or [bɛər], from Old English bera.",
}
BAD = {
    "nothing": "",
    "blanks": "  \n\t\n ",
    "replacements": "\ufffd\ufffd\ufffd",
    "one-token": "熊" * 40,
    "exclamations": "!" * 24,
    "word": "the the the the the the the the",
    "emoji": "😀" * 30,
    "phrase": "Bears sleep. Bears sleep. Bears sleep. Bears sleep. Bears sleep. Bears sleep. Bears",
    "lines": "bear\n" * 12,
    "loop-after-a-start": "The capital of France is is is is is is is is is is is is is is is is",
    "loop-with-a-full-stop": "はい" * 20 + "。",
    "loop-cut-in-a-character": "好的" * 20 + "\ufffd",
    "loop-then-good": "熊" * 60 + "\nBears sleep.",
    "blank-ruler": "-" * 200,
    "zeros": "0" * 120,
    "control": "b\x00e\x01a\x02r\x03s\x04",
    "half-unreadable": "be\ufffda\ufffdr\ufffds \ufffd\ufffdp",
    "chat": "User: hi\n\nA: 的！#￥\ufffd\ufffd\ufffd锟斤拷锟斤拷\ufffd\ufffd",
    "private": "\ue000\ue001 bear \ue002\ue003\ue004",
    "salad": "beмедвеاخ熊dרpθ зиدбrवв שkΩn تbдr הxж",
    "random-tokens": "An_[_er-ow\ufffdk-t-r. (#  \\>- »ounded \\ Olaf 山 kr ( pal \\ um {",
    "mojibake": "锟斤拷锟斤拷锟斤拷 熊",
}


@pytest.mark.parametrize("name", GOOD)
def test_good_text_in_any_language_is_left_alone(name: str) -> None:
    assert degenerate(GOOD[name]) == ""


@pytest.mark.parametrize("name", BAD)
def test_a_broken_text_is_called_so(name: str) -> None:
    assert degenerate(BAD[name])


def test_what_is_wrong_is_said() -> None:
    assert degenerate("") == "the text is empty"
    assert degenerate("熊" * 40) == "'熊' is repeated to the end"
    assert "unreadable" in degenerate(BAD["control"])
    assert "scripts" in degenerate(BAD["salad"])


def test_the_loop_itself_is_given() -> None:
    assert trailing_loop("so: abcabcabcabcabcabc") == "abc"
    assert trailing_loop("abc") == ""
