(function () {
  "use strict";
  var holder = document.getElementById("chart");
  var figure = JSON.parse(document.getElementById("chart-data").textContent);
  holder.textContent = "";
  Plotly.newPlot(holder, figure.data, figure.layout, { displayModeBar: false, responsive: true });
})();
